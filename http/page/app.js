// Joins the parts of the page. A model with a chat template is talked to; of another one, prompts are continued.
import { getJson, onKeyNeeded, useKey } from "./api.js";
import { Answer } from "./answer.js";
import { Conversation } from "./chat.js";
import * as documents from "./documents.js";
import { byId } from "./format.js";
import * as stats from "./stats.js";

let model = { id: "", chat: false };
let stop = null; // of the answer that runs
const conversation = new Conversation(fields, documents.mounted, run);

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

/** What belongs to a conversation is shown, and the question is asked below what was said. */
function showChat() {
  const ask = byId("ask");
  byId("asking").classList.add("chat");
  byId("asking").append(ask);
  byId("ask-title").textContent = "Talk";
  byId("prompt-label").textContent = "Message";
  byId("prompt").placeholder = "Ask about the documents that are ticked, or about anything";
  byId("prompt").rows = 2;
  byId("go").textContent = "Send";
  byId("max-tokens").value = 1024;
  byId("hint").replaceChildren("Enter sends, Shift Enter begins a new line");
  for (const one of document.querySelectorAll(".chat-only")) one.hidden = false;
}

async function load() {
  try {
    [model] = (await getJson("/v1/models")).data;
    byId("model").textContent = model.id;
    if (model.chat && !byId("asking").classList.contains("chat")) showChat();
    await documents.refresh();
    stats.start();
  } catch (error) {
    notice(error.message);
  }
}

/** Of a request, but for what is asked. */
function fields() {
  const body = {
    model: model.id, stream: true, retrievals: true, stream_options: { include_usage: true }, max_tokens: byId("max-tokens").valueAsNumber,
    temperature: byId("temperature").valueAsNumber, top_p: byId("top-p").valueAsNumber,
  };
  if (byId("seed").value) body.seed = byId("seed").valueAsNumber;
  if (byId("stop-text").value) body.stop = [byId("stop-text").value];
  if (byId("quotes").value === "no") body.quotes = false;
  if (byId("mount-as").value) body.mount_as = byId("mount-as").value;
  return body;
}

/** Streams one answer: there is no other one meanwhile. */
async function run(shown, body) {
  notice("");
  stop = new AbortController();
  byId("go").disabled = byId("new").disabled = true;
  byId("stop").disabled = false;
  await shown.run(body, stop.signal);
  stop = null;
  byId("go").disabled = byId("new").disabled = false;
  byId("stop").disabled = true;
  stats.start();
}

async function answer() {
  if (stop) return;
  const asked = byId("prompt").value;
  if (model.chat) {
    byId("prompt").value = "";
    return conversation.ask(asked);
  }
  const mounted = documents.mounted();
  const shown = new Answer(asked, mounted);
  byId("answers").prepend(shown.element);
  await run(shown, { ...fields(), prompt: asked, mounts: [...mounted.keys()] });
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  answer();
});
byId("prompt").addEventListener("keydown", (event) => {
  const sends = event.ctrlKey || event.metaKey || (model.chat && !event.shiftKey && !event.isComposing);
  if (event.key !== "Enter" || !sends) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});
byId("stop").addEventListener("click", () => stop?.abort());
byId("new").addEventListener("click", () => {
  conversation.clear();
  byId("prompt").focus();
});
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
