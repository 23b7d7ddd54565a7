// Joins the parts of the page.
import { getJson, onKeyNeeded, useKey } from "./api.js";
import { Answer } from "./answer.js";
import * as documents from "./documents.js";
import { byId } from "./format.js";
import * as stats from "./stats.js";

let model = "";
let stop = null; // of the answer that runs

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

async function load() {
  try {
    model = (await getJson("/v1/models")).data[0].id;
    byId("model").textContent = model;
    await documents.refresh();
    stats.start();
  } catch (error) {
    notice(error.message);
  }
}

function completion() {
  const body = {
    model, prompt: byId("prompt").value, mounts: [...documents.mounted().keys()], stream: true, retrievals: true,
    stream_options: { include_usage: true }, max_tokens: byId("max-tokens").valueAsNumber,
    temperature: byId("temperature").valueAsNumber, top_p: byId("top-p").valueAsNumber,
  };
  if (byId("seed").value) body.seed = byId("seed").valueAsNumber;
  if (byId("stop-text").value) body.stop = [byId("stop-text").value];
  return body;
}

async function answer() {
  if (stop) return;
  notice("");
  const body = completion();
  const shown = new Answer(body.prompt, documents.mounted());
  byId("answers").prepend(shown.element);
  stop = new AbortController();
  byId("go").disabled = true;
  byId("stop").disabled = false;
  await shown.run(body, stop.signal);
  stop = null;
  byId("go").disabled = false;
  byId("stop").disabled = true;
  stats.start();
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  answer();
});
byId("ask").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
});
byId("stop").addEventListener("click", () => stop?.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !byId("question").open) stop?.abort();
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(byId("key").value);
  byId("key-form").hidden = true;
  notice("");
  load();
});
onKeyNeeded(() => {
  byId("key-form").hidden = false;
  byId("key").select();
});
documents.start(notice);
load();
