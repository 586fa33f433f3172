// Requests to the service that this page came from. The key lives in sessionStorage only.

const KEY = "glong-key";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

export class ApiError extends Error {
  constructor(status, { type = "", message = "", hint = "", request_id: requestId = "" } = {}) {
    super(message);
    Object.assign(this, { status, type, hint, requestId });
  }
}

/** A path of ids. Refuses what a URL would read as another path: "..", "." and slashes. */
export function path(...parts) {
  for (const part of parts) {
    if (part === "." || part === ".." || /[/\\]/.test(part)) {
      throw new ApiError(0, {
        message: `The id ${JSON.stringify(part)} cannot stand in a URL.`,
        hint: "Use the glong command line for this one.",
      });
    }
  }
  return ["v1", "dialogues", ...parts.map(encodeURIComponent)].join("/");
}

export async function call(method, url, { body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, {
      method, headers, signal, cache: "no-store", credentials: "omit", body: body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      message: "The service cannot be reached.",
      hint: error instanceof TypeError ? "Is it still running? A key may hold plain ASCII letters only." : "",
    });
  }
  const document = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return {};
  });
  if (!response.ok) throw new ApiError(response.status, document.error ?? {
    message: "The service is not there.",
    hint: `Something else answers at its address (${response.status}). Is the service still running?`,
  });
  return document;
}

export const dialogues = (search, after, signal) =>
  call("GET", `v1/dialogues?${new URLSearchParams({ q: search, after, limit: 50 })}`, { signal });
export const graph = (dialogue, signal) => call("GET", path(dialogue, "graph"), { signal });
export const sessions = (dialogue, after, signal) =>
  call("GET", `${path(dialogue, "sessions")}?${new URLSearchParams({ after, limit: 100 })}`, { signal });
export const retrieve = (dialogue, body, signal) => call("POST", path(dialogue, "retrieve"), { body, signal });
export const forget = (dialogue, parts, query = "") => call("DELETE", path(dialogue, ...parts) + query);
