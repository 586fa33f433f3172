// The graph of a memory beside its facts: what is drawn, what is counted, what is chosen.

import { button, count, el, empty, isNarrow, show } from "./dom.js";
import { edgeCard, factList, nodeCard } from "./facts.js";
import { drawGraph } from "./graph.js";

const STEP = 60;
const STEP_NARROW = 30;
const MOST_DRAWN = 1500;

/** Fill `place`; returns a function that takes the picture down. `chosen` is an id or empty. */
export function pictureInto(place, context, chosen) {
  const { graph } = context.memory;
  if (!graph.edges.length) {
    show(place, empty("No facts yet", el("p", {}, `${count(graph.n_turns, "turn")} stored; no fact was found in them.`)));
    return () => {};
  }
  const step = isNarrow() ? STEP_NARROW : STEP;
  const state = { limit: step, text: "", closed: true, chosen, drawn: null };
  const canvas = el("div", {
    class: "canvas", tabindex: "0", role: "application",
    "aria-label": "Graph of the memory. Arrow keys move, plus and minus zoom, 0 fits. Its facts are listed beside it.",
  });
  const status = el("p", { class: "muted small", role: "status" });
  const side = el("div", { class: "side" });
  const more = button("", () => redraw(state.limit + step));
  const all = button("", () => redraw(MOST_DRAWN));
  let timer = 0;
  const find = el("input", { type: "search", placeholder: "name, relation, words said", on: { input: () => {
    clearTimeout(timer);
    timer = setTimeout(() => { state.text = find.value.trim().toLowerCase(); redraw(step); }, 200);
  } } });
  const closed = el("input", { type: "checkbox", checked: true, on: { change: () => {
    state.closed = closed.checked;
    redraw(state.limit);
  } } });
  const steer = (text, label, act) => button(text, act, { "aria-label": label, title: label });

  function redraw(limit) {
    state.limit = limit;
    const found = graph.edges.filter((edge) => matches(edge, state));
    const edges = heaviest(found, limit, state.chosen, context.memory);
    const left = found.length - edges.length;
    status.textContent = left > 0
      ? `The ${count(edges.length, "heaviest fact")} of ${found.length.toLocaleString("en")}; ${left.toLocaleString("en")} more.`
      : found.length ? `${count(edges.length, "fact")}, all that match.` : "No fact matches.";
    more.textContent = `Show ${Math.min(step, left)} more`;
    all.textContent = found.length > MOST_DRAWN ? `Show ${MOST_DRAWN}` : "Show all";
    more.hidden = left <= 0 || limit >= MOST_DRAWN;
    all.hidden = more.hidden || left <= step;
    state.drawn?.destroy();
    state.drawn = drawGraph(canvas, { nodes: endpoints(edges, context.memory), edges },
      { node: choose, edge: choose, none: () => choose("") });
    aside(found);
    state.drawn.choose(state.chosen);
  }

  function choose(id) {
    state.chosen = id;
    if (id && state.drawn.cy.getElementById(id).empty()) redraw(state.limit);
    else state.drawn.choose(id);
    aside(graph.edges.filter((edge) => matches(edge, state)));
    side.querySelector("h3")?.focus({ preventScroll: !isNarrow() });
  }

  function aside(found) {
    const edge = context.memory.edges.get(state.chosen);
    const node = context.memory.nodes.get(state.chosen);
    const inside = { ...context, choose };
    const back = button("← All facts", () => choose(""), { class: "link" });
    if (edge) show(side, back, edgeCard(edge, inside));
    else if (node) show(side, back, nodeCard(node, inside));
    else show(side, el("h3", { tabindex: "-1" }, "Facts, heaviest first"), factList(found, choose));
  }

  show(place,
    el("div", { class: "row tools" },
      el("label", { class: "grow" }, "Find facts ", find),
      el("label", { class: "tick" }, closed, "closed facts (dashed)")),
    el("div", { class: "picture" },
      el("div", { class: "drawn" },
        canvas,
        el("div", { class: "row zoom" },
          steer("+", "Zoom in", () => state.drawn.zoom(1.4)),
          steer("−", "Zoom out", () => state.drawn.zoom(1 / 1.4)),
          steer("Fit", "Fit the graph", () => state.drawn.fit())),
        el("div", { class: "row" }, status, more, all)),
      side));
  redraw(state.limit);
  return () => {
    clearTimeout(timer);
    state.drawn.destroy();
  };
}

function matches(edge, { text, closed }) {
  if (!closed && edge.closed_by) return false;
  return !text || [edge.subject, edge.relation.replaceAll("_", " "), edge.object, edge.turn.text]
    .some((said) => said.toLowerCase().includes(text));
}

/** The first `limit` (they stand by weight), and what was chosen, drawn in any case. */
function heaviest(found, limit, chosen, memory) {
  const edges = found.slice(0, limit);
  const wanted = memory.edges.get(chosen)
    ?? (memory.nodes.has(chosen) ? memory.graph.edges.find((e) => e.head === chosen || e.tail === chosen) : null);
  if (wanted && !edges.includes(wanted)) edges.push(wanted);
  return edges;
}

function endpoints(edges, memory) {
  const ids = new Set(edges.flatMap((edge) => [edge.head, edge.tail]));
  return [...ids].map((id) => memory.nodes.get(id)).sort((a, b) => b.weight - a.weight);
}
