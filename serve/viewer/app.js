// The page: its address (#/d/DIALOGUE/VIEW/CHOSEN), the list of memories, the key.

import * as api from "./api.js";
import { askInto } from "./ask.js";
import { button, count, day, el, empty, failure, loading, show } from "./dom.js";
import * as forget from "./forget.js";
import { pictureInto } from "./picture.js";
import { sessionsInto } from "./sessions.js";

const VIEWS = { graph: "Graph", sessions: "Timeline", ask: "Ask" };
const listed = document.getElementById("dialogues");
const place = document.getElementById("memory");
const searchText = document.getElementById("search-text");
const keyText = document.getElementById("key-text");
const keyClear = document.getElementById("key-clear");

let memory = null;
let listing = new AbortController();
let reading = new AbortController();
let takeDown = () => {};

function route() {
  const [, kind, id, view, chosen] = location.hash.split("/").map(decoded);
  return kind === "d" && id ? { id, view: view in VIEWS ? view : "graph", chosen: chosen ?? "" } : null;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

function link(id, view, chosen = "") {
  return `#/d/${encodeURIComponent(id)}/${view}${chosen ? `/${encodeURIComponent(chosen)}` : ""}`;
}

// The list

async function list(after = "") {
  listing.abort();
  listing = new AbortController();
  const { signal } = listing;
  if (!after) show(listed, loading("memories"));
  try {
    const page = await api.dialogues(searchText.value.trim(), after, signal);
    listPage(page, after);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) error.hint = "Enter a key in the field at the top, then press Use.";
    const problem = failure(error, () => list(after));
    if (after) listed.append(problem);
    else show(listed, problem);
    if (error.status === 401) keyText.focus();
  }
}

function listPage(page, after) {
  const rows = page.dialogues.map((one) => el("li", {},
    el("a", { href: link(one.dialogue_id, "graph"), "data-id": one.dialogue_id },
      el("b", {}, one.dialogue_id),
      el("span", { class: "muted small" },
        [count(one.n_sessions, "session"), count(one.n_edges, "fact"), day(one.last_at)]
          .flatMap((text, i) => [i ? " · " : "", el("span", { class: "whole" }, text)])))));
  if (!after) {
    const found = searchText.value.trim();
    if (rows.length) show(listed, el("ul", {}));
    else if (found) show(listed, empty("No match", el("p", {}, "No dialogue's id has ", el("b", {}, found), " in it.")));
    else show(listed, empty("No memories yet", el("p", {}, "A memory is there once its first session is posted:"), example()));
  }
  listed.querySelectorAll("button.more, .error").forEach((old) => old.remove());
  listed.querySelector("ul")?.append(...rows);
  if (page.next) listed.append(button("Load more", () => list(page.next), { class: "more" }));
  if (after) rows[0]?.querySelector("a").focus();
  markCurrent();
}

function example() {
  const url = new URL("v1/dialogues/mira/sessions", location.href.split("#")[0]);
  const key = api.key.get() ? ["  -H 'Authorization: Bearer KEY' \\"] : [];
  return el("pre", { tabindex: "0" }, [
    `curl ${url.href} \\`,
    ...key,
    "  -H 'Content-Type: application/json' \\",
    "  -d '{\"session_id\": \"1\", \"turns\":",
    "       [{\"speaker\": \"Mira\",",
    "         \"text\": \"I got a greyhound.\"}]}'",
  ].join("\n"));
}

function markCurrent() {
  for (const one of listed.querySelectorAll("a[data-id]")) {
    if (one.dataset.id === route()?.id) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
}

// One memory

async function open({ id, view, chosen }) {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  takeDown();
  takeDown = () => {};
  if (memory?.id !== id) {
    memory = null;
    show(place, back(), el("h2", { tabindex: "-1" }, id), loading("the memory"));
    place.querySelector("h2").focus({ preventScroll: true });
    try {
      memory = remembered(id, await api.graph(id, signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      show(place, back(), el("h2", {}, id), failure(error, () => open({ id, view, chosen })));
      return;
    }
  }
  const body = el("section", { "aria-label": VIEWS[view] });
  show(place, ...heading(view), body);
  const context = contextOf();
  if (view === "graph") takeDown = pictureInto(body, context, chosen);
  else if (view === "sessions") await sessionsInto(body, context, chosen, signal);
  else askInto(body, context, signal);
}

/** The graph with what the views look up: edges by weight, weights of nodes, both by id. */
function remembered(id, graph) {
  graph.edges.sort((a, b) => b.weight - a.weight);
  const nodes = new Map(graph.nodes.map((node) => [node.id, { ...node, weight: 0 }]));
  for (const edge of graph.edges) {
    nodes.get(edge.head).weight += Math.max(0, edge.weight);
    if (edge.tail !== edge.head) nodes.get(edge.tail).weight += Math.max(0, edge.weight);
  }
  return { id, graph, nodes, edges: new Map(graph.edges.map((edge) => [edge.id, edge])) };
}

/** The way to the list, where the page is too narrow for both. */
function back() {
  return el("a", { class: "back", href: "#/" }, "← All memories");
}

function heading(view) {
  const { id, graph } = memory;
  return [
    back(),
    el("div", { class: "row between" },
      el("h2", { tabindex: "-1" }, id),
      button("Forget this memory", () => forget.forgetDialogue(id, graph, gone), { class: "danger" })),
    el("p", { class: "muted small" },
      [count(graph.edges.length, "fact"), count(graph.nodes.length, "person or thing", "people and things"),
        count(graph.n_turns, "turn"), `version ${graph.store_version}`].join(" · ")),
    el("nav", { class: "tabs", "aria-label": "Views" }, Object.entries(VIEWS).map(([name, title]) =>
      el("a", { href: link(id, name), "aria-current": name === view ? "page" : false }, title))),
  ];
}

function contextOf() {
  const { id } = memory;
  return {
    memory,
    link: (view, chosen) => link(id, view, chosen),
    choose: (chosen) => { location.hash = link(id, "graph", chosen); },
    forget: {
      edge: (edge) => forget.forgetEdge(id, edge, again),
      turn: (turn) => forget.forgetTurn(id, turn, again),
      session: (session) => forget.forgetSession(id, session, again),
      entity: (node) => forget.forgetEntity(id, node, again),
    },
  };
}

/** Something of the memory was forgotten: read all of it anew. */
function again() {
  memory = null;
  list();
  open({ ...route(), chosen: "" });
}

function gone() {
  memory = null;
  location.hash = "#/";
  list();
}

function welcome() {
  reading.abort();
  takeDown();
  takeDown = () => {};
  memory = null;
  show(place, empty("Choose a memory", el("p", {}, "Its graph, its sessions, and what it answers are shown here.")));
}

function go() {
  const to = route();
  document.body.dataset.view = to ? "memory" : "list";
  document.title = to ? `${to.id} · glong memories` : "glong memories";
  markCurrent();
  if (to) open(to);
  else welcome();
}

// The key

function keyShown() {
  keyText.value = "";
  keyText.placeholder = api.key.get() ? "a key was given" : "Bearer key, if one is needed";
  keyClear.hidden = !api.key.get();
}

function keyChanged(text) {
  api.key.set(text.trim());
  keyShown();
  memory = null;
  list();
  go();
}

document.getElementById("key").addEventListener("submit", (event) => {
  event.preventDefault();
  if (keyText.value.trim()) keyChanged(keyText.value);
});
keyClear.addEventListener("click", () => keyChanged(""));

let typing = 0;
searchText.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => list(), 200);
});
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  list();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});
window.addEventListener("hashchange", go);
keyShown();
list();
go();
