// Requests to the server this page came from: the key, errors in words, and answers that come in pieces.
let askForKey = () => {};

/** `ask` is called when the server answers 401. */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

export function useKey(key) {
  sessionStorage.setItem("recollect-key", key);
}

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function inWords(status, error, wait) {
  if (status === 401) return "The server asks for a key, or does not know this one.";
  const message = error?.message ?? `The server answered with status ${status}.`;
  return wait ? `${message} Try again in ${wait} s.` : message;
}

/** The response, if it is a success; otherwise throws an ApiError. */
export async function request(method, path, options = {}) {
  const headers = new Headers(options.headers);
  const key = sessionStorage.getItem("recollect-key");
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response;
  try {
    response = await fetch(path, { ...options, method, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
  if (response.ok) return response;
  if (response.status === 401) askForKey();
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, inWords(response.status, body?.error, response.headers.get("Retry-After")));
}

export async function getJson(path) {
  return (await request("GET", path)).json();
}

export function documentPath(id) {
  return `/v1/documents/${encodeURIComponent(id)}`;
}

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

function parse(text) {
  const value = JSON.parse(text);
  if (value.error) throw new ApiError(0, value.error.message);
  return value;
}

/** The objects of an answer of JSON lines; an error among them is thrown. */
export async function* jsonLines(response) {
  for await (const line of lines(response)) if (line.trim()) yield parse(line);
}

/** The objects of a stream of server-sent events; throws if it breaks off before its [DONE]. */
export async function* events(response) {
  for await (const line of lines(response)) {
    if (line === "data: [DONE]") return;
    if (line.startsWith("data: ")) yield parse(line.slice(6));
  }
  throw new ApiError(0, "The connection broke off before the answer was whole.");
}
