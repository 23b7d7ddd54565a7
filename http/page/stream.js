// An answer that is streamed: its events, how long it took, and how it ended.
import { events, request } from "./api.js";

/**
 * Streams the answer to `body` from `path`, and marks `element` as running meanwhile. `take(event)` says whether the event has text.
 * `done(usage, waited, took)` gets the milliseconds before the first text and from there on; in its place come `stopped()` and `failed(message)`.
 */
export async function stream(element, path, body, signal, { take, done, stopped, failed }) {
  element.classList.add("running");
  const start = performance.now();
  let first = 0;
  let usage = null;
  try {
    const response = await request("POST", path, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
    for await (const event of events(response)) {
      if (event.usage) usage = event.usage;
      if (take(event) && !first) first = performance.now();
    }
    done(usage, first - start, performance.now() - first);
  } catch (error) {
    if (error.name === "AbortError") stopped();
    else failed(error.message);
  } finally {
    element.classList.remove("running");
  }
}
