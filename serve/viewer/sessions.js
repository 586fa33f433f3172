// The sessions of a memory along time.

import * as api from "./api.js";
import { button, count, day, el, empty, failure, loading, show, when } from "./dom.js";
import { factList } from "./facts.js";

const DAY_MS = 86_400_000;
const SVG = "http://www.w3.org/2000/svg";

/** Fill `place`; `chosen` is the session to open, or empty. */
export async function sessionsInto(place, context, chosen, signal) {
  show(place, loading("sessions"));
  let rows = [];
  let next = "";
  try {
    do {
      const page = await api.sessions(context.memory.id, next, signal);
      rows = rows.concat(page.sessions);
      next = page.next;
    } while (next && chosen && !rows.some((row) => row.session_id === chosen));
  } catch (error) {
    if (error.name !== "AbortError") show(place, failure(error, () => sessionsInto(place, context, chosen, signal)));
    return;
  }
  if (!rows.length) {
    show(place, empty("No sessions", el("p", {}, "Every session of this memory was forgotten.")));
    return;
  }
  const axis = el("div", { class: "axis", "aria-hidden": "true" });
  const list = el("ol", { class: "timeline" });
  const problem = el("div");
  const more = button("Load later sessions", () => extend());
  const bySession = Map.groupBy
    ? Map.groupBy(context.memory.graph.edges, (edge) => edge.session_id)
    : grouped(context.memory.graph.edges);

  function append(fresh, before) {
    const busiest = Math.max(...rows.map((row) => row.n_edges), 1);
    fresh.forEach((row, i) => {
      const previous = i ? fresh[i - 1] : before;
      list.append(sessionRow(row, previous, busiest, bySession.get(row.session_id) ?? [], context, row.session_id === chosen));
    });
    show(axis, overview(rows));
    more.hidden = !next;
  }

  async function extend() {
    more.disabled = true;
    show(problem);
    try {
      const page = await api.sessions(context.memory.id, next, signal);
      const before = rows.at(-1);
      rows = rows.concat(page.sessions);
      next = page.next;
      append(page.sessions, before);
    } catch (error) {
      if (error.name !== "AbortError") show(problem, failure(error));
    }
    more.disabled = false;
  }

  append(rows, null);
  show(place, axis, list, problem, more);
  const opened = list.querySelector("details[open]");
  opened?.scrollIntoView({ block: "start" });
  opened?.querySelector("summary").focus({ preventScroll: true });
}

function grouped(edges) {
  const groups = new Map();
  for (const edge of edges) groups.set(edge.session_id, [...(groups.get(edge.session_id) ?? []), edge]);
  return groups;
}

function sessionRow(row, previous, busiest, edges, context, open) {
  const bar = el("span", { class: "share", "aria-hidden": "true" });
  bar.style.width = `${(100 * row.n_edges) / busiest}%`;
  const inside = el("div", {});
  const details = el("details", { open, on: { toggle: () => details.open && fill() } },
    el("summary", {},
      el("b", {}, row.session_id),
      row.status === "built" ? null : el("span", { class: "badge bad" }, row.status),
      el("span", { class: "muted small" },
        [count(row.n_turns, "turn"), count(row.n_edges, "fact"), row.n_failures ? count(row.n_failures, "failure") : ""]
          .filter(Boolean).join(" · ")),
      el("span", { class: "track" }, bar)),
    inside);
  function fill() {
    if (inside.childElementCount) return;
    show(inside,
      edges.length
        ? factList(edges, (id) => { location.hash = context.link("graph", id); }, 20)
        : el("p", { class: "muted" }, "No fact of it is in the graph."),
      el("div", { class: "row" },
        button("Forget this session", () => context.forget.session(row), { class: "danger" })));
  }
  if (open) fill();
  return el("li", {},
    gapText(previous, row) ? el("p", { class: "gap muted small" }, gapText(previous, row)) : null,
    el("time", { datetime: row.started_at ?? false, title: `${when(row.started_at)} UTC` }, day(row.started_at)),
    details);
}

function gapText(previous, row) {
  if (!previous?.started_at || !row.started_at) return "";
  const days = Math.round((new Date(row.started_at) - new Date(previous.started_at)) / DAY_MS);
  return days > 1 ? `${days.toLocaleString("en")} days later` : "";
}

/** A dot a session along one line, as large as it has facts; the list below says the same. */
function overview(rows) {
  const dated = rows.filter((row) => row.started_at).map((row) => ({ at: Date.parse(row.started_at), n: row.n_edges }));
  if (dated.length < 2) return null;
  const from = dated[0].at;
  const span = Math.max(dated.at(-1).at - from, 1);
  const most = Math.max(...dated.map((one) => one.n), 1);
  const svg = svgOf("svg", { viewBox: "0 0 1000 60", preserveAspectRatio: "none" });
  svg.append(svgOf("line", { x1: 20, x2: 980, y1: 30, y2: 30, class: "line" }));
  for (const one of dated) {
    const half = 3 + 22 * Math.sqrt(one.n / most);
    const x = 20 + (960 * (one.at - from)) / span;
    svg.append(svgOf("line", { x1: x, x2: x, y1: 30 - half, y2: 30 + half, class: "tick-mark" }));
  }
  return [svg, el("div", { class: "row between muted small" },
    el("span", {}, day(rows.find((row) => row.started_at).started_at)),
    el("span", {}, day(rows.findLast((row) => row.started_at).started_at)))];
}

function svgOf(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
