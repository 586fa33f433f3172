// Elements from values. Text goes in as text nodes only, so whatever people said stays text.

/** An element. `props`: attributes; `class`; `on` with listeners; false, null, undefined: left out. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (value === true) {
      node.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, String(value));
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function button(text, onClick, props = {}) {
  return el("button", { type: "button", ...props, on: { click: onClick } }, text);
}

export function show(place, ...children) {
  place.replaceChildren(...children.flat().filter(Boolean));
}

export function loading(what) {
  return el("p", { class: "state loading", role: "status" }, `Loading ${what} …`);
}

export function empty(title, ...more) {
  return el("div", { class: "state empty" }, el("h3", {}, title), ...more);
}

/** What went wrong and what to do; `again` retries. */
export function failure(error, again) {
  const request = error.requestId ? el("p", { class: "muted small" }, `Request ${error.requestId}`) : null;
  return el("div", { class: "state error", role: "alert" },
    el("h3", {}, error.message),
    error.hint ? el("p", {}, error.hint) : null,
    request,
    again ? button("Try again", again) : null);
}

export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** A time as the service has it, in UTC: "2026-01-05 10:00". */
export function when(time, fallback = "unknown") {
  return time ? new Date(time).toISOString().slice(0, 16).replace("T", " ") : fallback;
}

export function day(time, fallback = "no date") {
  return time ? new Date(time).toISOString().slice(0, 10) : fallback;
}

export function plain(relation) {
  return relation.replaceAll("_", " ");
}

export function isNarrow() {
  return window.matchMedia("(max-width: 800px)").matches;
}
