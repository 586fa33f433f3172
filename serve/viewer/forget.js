// Forgetting: says what would go, asks, shows the receipt.

import * as api from "./api.js";
import { button, count, el, failure, show, when } from "./dom.js";

/**
 * Ask, then forget.
 *
 * @param {object} what
 * @param {string} what.title a question: "Forget this fact?"
 * @param {string} what.named the very thing, in the words of the memory
 * @param {string} what.goes what is lost with it
 * @param {string} what.dialogue id of the memory
 * @param {string[]} what.parts the path below the memory; none for the whole of it
 * @param {string} [what.choice] text of a tick box that adds `?turns=true`
 * @param {() => void} done called when the receipt is closed
 */
export function confirmForget(what, done) {
  const box = document.getElementById("confirm");
  const turns = what.choice ? el("input", { type: "checkbox" }) : null;
  const outcome = el("div", { "aria-live": "polite" });
  const keep = button("Keep it", () => box.close());
  const go = button("Forget", async () => {
    keep.disabled = go.disabled = true;
    show(outcome, el("p", { role: "status" }, "Forgetting …"));
    try {
      const receipt = await api.forget(what.dialogue, what.parts, turns?.checked ? "?turns=true" : "");
      receiptInto(box, receipt, done);
    } catch (error) {
      keep.disabled = go.disabled = false;
      show(outcome, failure(error));
    }
  }, { class: "danger" });
  show(box,
    el("h2", { id: "confirm-title" }, what.title),
    el("p", { class: "named" }, what.named),
    el("p", {}, `${what.goes} It stays forgotten when memories are built again.`),
    turns ? el("label", { class: "tick" }, turns, what.choice) : null,
    outcome,
    el("div", { class: "row end" }, keep, go));
  box.oncancel = (event) => {
    if (go.disabled) event.preventDefault(); // the answer is on its way
  };
  box.onclose = null;
  box.showModal();
  keep.focus();
}

function receiptInto(box, receipt, done) {
  const rows = Object.entries(receipt.rows).map(([table, n]) => el("li", {}, `${table}: ${count(n, "row")}`));
  const close = button("Close", () => box.close(), { class: "main" });
  show(box,
    el("h2", { id: "confirm-title" }, "Forgotten"),
    el("p", {}, `At ${when(receipt.forgotten_at)} UTC; no reader sees it any more.`),
    rows.length ? el("ul", {}, rows) : null,
    receipt.purge_due
      ? el("p", { class: "muted" }, "Its bytes stay on the disk until the service's operator runs a purge.")
      : null,
    el("div", { class: "row end" }, close));
  box.oncancel = null;
  box.onclose = done;
  close.focus();
}

export function forgetEdge(dialogue, edge, done) {
  confirmForget({
    title: "Forget this fact?",
    named: `${edge.subject} ${edge.relation} ${edge.object}`,
    goes: "The fact goes; the turn that states it stays.",
    dialogue,
    parts: ["edges", edge.id],
  }, done);
}

export function forgetTurn(dialogue, turn, done) {
  confirmForget({
    title: "Forget this turn?",
    named: `${turn.speaker}: ${turn.text}`,
    goes: "The turn and every fact that it states go.",
    dialogue,
    parts: ["sessions", turn.session_id, "turns", String(turn.index)],
  }, done);
}

export function forgetSession(dialogue, session, done) {
  confirmForget({
    title: "Forget this session?",
    named: session.session_id,
    goes: `Its ${count(session.n_turns, "turn")} and ${count(session.n_edges, "fact")} go.`,
    dialogue,
    parts: ["sessions", session.session_id],
  }, done);
}

export function forgetEntity(dialogue, node, done) {
  confirmForget({
    title: "Forget this person or thing?",
    named: node.name,
    goes: `Its ${count(node.n_edges, "fact")} go, from every session.`,
    dialogue,
    parts: ["entities", node.id],
    choice: "Also forget every turn that it speaks or is named in",
  }, done);
}

export function forgetDialogue(dialogue, graph, done) {
  confirmForget({
    title: "Forget the whole memory?",
    named: dialogue,
    goes: `All of it goes: ${count(graph.n_turns, "turn")}, ${count(graph.edges.length, "fact")}, every session.`,
    dialogue,
    parts: [],
  }, done);
}
