// What the server's budgets hold, and from which tier chunks came.
import { getJson } from "./api.js";
import { byId, bytes, count, counted, make } from "./format.js";

const BUDGETS = [["Landmark keys", "landmark"], ["Hot chunks", "memory"], ["Chunk states", "chunk_states"], ["Sessions", "state"]];
const EVERY_MS = 3000;

function meter(name, used, budget) {
  return [make("dt", {}, make("span", {}, name), make("span", {}, `${bytes(used)} of ${bytes(budget)}`)),
    make("dd", {}, make("meter", { max: budget, value: used, ariaLabel: name }))];
}

/** How landmark keys are searched: with an index, documents without one are searched exactly, as all are otherwise. */
function search(index, documents) {
  if (index === "exact") return "Landmark keys are searched exactly";
  return `Landmark keys are searched with the index ${index}: approximately in ${counted(documents, "document")}, exactly in the others`;
}

export async function refresh() {
  const stats = await getJson("/v1/stats");
  const number = (name) => Number(stats[name] ?? stats.engine?.[name] ?? stats.stats?.[name] ?? 0);
  byId("meters").replaceChildren(...BUDGETS.filter(([, field]) => number(`${field}_budget_bytes`) > 0)
    .flatMap(([name, field]) => meter(name, number(`${field}_bytes`), number(`${field}_budget_bytes`))));
  byId("tiers").textContent = `Chunks read: ${count(number("chunk_hits_memory"))} from memory, ${count(number("chunk_hits_states"))} from states, ${count(number("chunk_hits_store"))} from the store`;
  byId("search").textContent = search(stats.index, number("indexed_documents"));
  byId("budgets").hidden = false;
}

/** Until the first failure: a server that is gone is not asked for ever. `start` again after that. */
let timer = 0;
export function start() {
  clearInterval(timer);
  const once = () => {
    if (!document.hidden) refresh().catch(() => clearInterval(timer));
  };
  timer = setInterval(once, EVERY_MS);
  once();
}
