// A retrieval, and why each hit won: each part of its score as a bar.

import * as api from "./api.js";
import { count, el, empty, failure, loading, show } from "./dom.js";
import { factText, quotation } from "./facts.js";

const SHOWN_PARTS = 7;
const MEANING = {
  words: "words of the question in the turn",
  words_near: "words in the turns around it",
  words_session: "words in its session",
  turn: "meaning of the turn",
  around: "meaning of the turns around it",
  triplet: "meaning of its best fact",
  linked: "reached through people and things",
  before: "the turn before fits",
  after: "the turn after fits",
  before_that: "the turn two before fits",
  asks_for: "it asks what is asked",
  speaker: "said by whom the question names",
  name: "names whom the question names",
  date: "said when the question asks about",
  says_time: "says a time, and a time is asked",
  length: "length of the turn",
  first_person: "speaks of oneself",
  own_words: "speaks of oneself, and that is asked",
  asks: "is a question",
  answers: "answers a question",
  pagerank: "near in the graph",
  weight: "weight of its facts",
  recency: "how recent it is",
  closed: "a later fact closed it",
  again: "better hits of its session, where several are asked for",
  similarity: "meaning of the fact",
};

/** Fill `place`; the last answer is kept in the memory, for the way back from the graph. */
export function askInto(place, context, signal) {
  const { memory } = context;
  const asked = memory.asked ?? { query: "", k: 5, profile: "hybrid", as_of: "", now: "" };
  const query = el("input", { type: "text", required: true, maxlength: 20_000, value: asked.query, placeholder: "Which pet does Mira have?" });
  const k = el("input", { type: "number", min: 1, max: 50, value: asked.k, required: true });
  const profile = el("select", {}, ["hybrid", "paper"].map((name) =>
    el("option", { value: name, selected: name === asked.profile }, name)));
  const asOf = el("input", { type: "datetime-local", value: asked.as_of });
  const now = el("input", { type: "datetime-local", value: asked.now });
  const result = el("div", { class: "hits" });
  const submit = async (event) => {
    event?.preventDefault();
    memory.asked = { query: query.value, k: Number(k.value), profile: profile.value, as_of: asOf.value, now: now.value };
    memory.answer = null;
    show(result, loading("memories"));
    const body = { query: query.value, k: Number(k.value), profile: profile.value };
    if (asOf.value) body.as_of = `${asOf.value}Z`;
    if (now.value) body.now = `${now.value}Z`;
    try {
      memory.answer = await api.retrieve(memory.id, body, signal);
      answerInto(result, memory.answer, context);
    } catch (error) {
      if (error.name !== "AbortError") show(result, failure(error, submit));
    }
  };
  show(place,
    el("form", { class: "ask", on: { submit } },
      el("label", { class: "grow" }, "Question ", query),
      el("label", {}, "Hits ", k),
      el("button", { type: "submit", class: "main" }, "Retrieve"),
      el("details", { open: Boolean(asked.as_of || asked.now || asked.profile !== "hybrid") },
        el("summary", {}, "Options"),
        el("div", { class: "row" },
          el("label", {}, "Profile ", profile),
          el("label", {}, "As known at (UTC) ", asOf),
          el("label", {}, "Asked at (UTC) ", now)))),
    result);
  if (memory.answer) answerInto(result, memory.answer, context);
  else show(result, empty("Ask this memory", el("p", {}, "Each hit shows what its score is made of.")));
}

function answerInto(place, answer, context) {
  const hits = answer.hits.map((hit) => ({ hit, parts: contributions(hit, answer.factors) }));
  const largest = Math.max(...hits.flatMap(({ parts }) => parts.map((part) => Math.abs(part.adds))), 1e-9);
  show(place,
    hits.length
      ? el("p", { class: "muted small", role: "status" },
        `${count(hits.length, "hit")} in ${answer.timings_ms.total.toFixed(0)} ms. Bars to the right raised the score, to the left lowered it.`)
      : empty("Nothing found", el("p", {}, "No memory answers this.")),
    el("ol", {}, hits.map(({ hit, parts }) => hitCard(hit, parts, largest, context))));
}

function contributions(hit, factors) {
  return Object.entries(hit.parts)
    .map(([name, value]) => ({ name, value, factor: factors[name], adds: value * factors[name] }))
    .sort((a, b) => Math.abs(b.adds) - Math.abs(a.adds));
}

function hitCard(hit, parts, largest, context) {
  const felt = parts.filter((part) => Math.abs(part.adds) >= 0.0005);
  const shown = felt.slice(0, SHOWN_PARTS);
  const rest = felt.slice(SHOWN_PARTS);
  const nothing = parts.length - felt.length;
  return el("li", { class: "card hit" },
    el("div", { class: "row between" },
      el("h3", {}, hit.edges.length ? factText(hit) : ["What ", el("b", {}, hit.turn.speaker), " said"]),
      el("span", { class: "score", title: "score" }, hit.score.toFixed(3))),
    quotation(hit.turn, context),
    hit.edges.length ? el("ul", { class: "facts" }, hit.edges.map((edge) => el("li", {},
      el("a", { class: edge.closed_by ? "fact closed" : "fact", href: context.link("graph", edge.id) },
        el("span", {}, factText(edge)), el("span", { class: "small" }, "in the graph →"))))) : null,
    el("div", { class: "bars" }, shown.map((part) => bar(part, largest))),
    rest.length ? el("details", {},
      el("summary", {}, `${count(rest.length, "smaller part")}, together ${signed(rest.reduce((sum, part) => sum + part.adds, 0))}`),
      el("div", { class: "bars" }, rest.map((part) => bar(part, largest)))) : null,
    nothing ? el("p", { class: "muted small" }, `${count(nothing, "other part")} added nothing.`) : null);
}

function bar(part, largest) {
  const fill = el("span", { class: part.adds < 0 ? "fill minus" : "fill plus" });
  fill.style.width = `${Math.max(0.5, (50 * Math.abs(part.adds)) / largest)}%`;
  const how = `${part.value.toFixed(3)} × ${part.factor.toFixed(3)}`;
  return el("div", { class: "bar", title: `${part.name}: ${how}` },
    el("span", { class: "what" }, MEANING[part.name] ?? part.name, el("code", {}, part.name)),
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("span", { class: "adds" }, signed(part.adds), el("span", { class: "how muted" }, how)));
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}
