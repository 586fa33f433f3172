// One fact, one person or thing, and lists of facts, as text.

import { button, count, el, plain, when } from "./dom.js";

export function factText(edge) {
  return [el("b", {}, edge.subject), ` ${plain(edge.relation)} `, el("b", {}, edge.object)];
}

/** Facts as buttons, `step` at a time; what is not shown is counted. */
export function factList(edges, onEdge, step = 60) {
  const list = el("ul", { class: "facts" });
  const more = button("", () => extend());
  let shown = 0;
  function extend() {
    const from = shown;
    shown = Math.min(edges.length, shown + step);
    list.append(...edges.slice(from, shown).map((edge) => factRow(edge, onEdge)));
    more.textContent = `Show more (${(edges.length - shown).toLocaleString("en")} left)`;
    more.hidden = shown === edges.length;
    if (from) list.children[from].firstChild.focus();
  }
  extend();
  return [list, more];
}

function factRow(edge, onEdge) {
  const row = button("", () => onEdge(edge.id), { class: edge.closed_by ? "fact closed" : "fact" });
  row.append(
    el("span", {}, factText(edge)),
    el("span", { class: "weight", title: "weight" }, edge.weight.toFixed(2)),
    edge.closed_by ? el("span", { class: "badge" }, `until ${when(edge.valid_to)}`) : "");
  return el("li", {}, row);
}

function term(name, ...values) {
  return [el("dt", {}, name), el("dd", {}, ...values)];
}

export function quotation(turn, context) {
  return el("figure", { class: "turn" },
    el("blockquote", {}, el("b", {}, `${turn.speaker}: `), turn.text),
    el("figcaption", { class: "muted small" },
      el("a", { href: context.link("sessions", turn.session_id) }, turn.session_id),
      ` · turn ${turn.index} · ${when(turn.time, "no time")}${turn.time ? " UTC" : ""}`));
}

/** A fact with its validity and its source turn. `context`: memory, link, choose, forget. */
export function edgeCard(edge, context) {
  const { memory } = context;
  const closer = edge.closed_by ? memory.edges.get(edge.closed_by) : null;
  return el("article", { class: "card" },
    el("h3", { tabindex: "-1" }, factText(edge)),
    el("dl", {},
      term("Holds", validity(edge)),
      closer ? term("Closed by", button(`${closer.subject} ${plain(closer.relation)} ${closer.object}`,
        () => context.choose(closer.id), { class: "link" })) : null,
      term("Weight", edge.weight.toFixed(3)),
      term("Last used", when(edge.accessed_at, "never"))),
    el("h4", {}, "Where it comes from"),
    quotation(edge.turn, context),
    el("div", { class: "row" },
      entityButton(edge.head, context), entityButton(edge.tail, context)),
    el("div", { class: "row" },
      button("Forget this fact", () => context.forget.edge(edge), { class: "danger" }),
      button("Forget the turn", () => context.forget.turn(edge.turn), { class: "danger" })));
}

function validity(edge) {
  const from = edge.valid_from ? `from ${when(edge.valid_from)}` : "from an unknown time";
  if (!edge.closed_by) return `${from} UTC, still`;
  return `${from} to ${when(edge.valid_to)} UTC`;
}

function entityButton(id, context) {
  const node = context.memory.nodes.get(id);
  return button(`All of ${node.name}`, () => context.choose(id));
}

/** A person or thing with all its facts, heaviest first. */
export function nodeCard(node, context) {
  const facts = context.memory.graph.edges.filter((edge) => edge.head === node.id || edge.tail === node.id);
  const aliases = node.aliases.filter((alias) => alias !== node.name);
  return el("article", { class: "card" },
    el("h3", { tabindex: "-1" }, node.name),
    aliases.length ? el("p", { class: "muted" }, `also: ${aliases.join(", ")}`) : null,
    el("div", { class: "row" },
      button("Forget all of it", () => context.forget.entity(node), { class: "danger" })),
    el("h4", {}, count(facts.length, "fact")),
    factList(facts, context.choose, 25));
}
