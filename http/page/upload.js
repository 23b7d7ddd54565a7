// One file on its way into a document. It is sent in parts, each with its byte range, so that there is progress to show and an ingest
// that was broken off goes on where the server stands.
import { ApiError, documentPath, getJson, jsonLines, request } from "./api.js";

const PART_BYTES = 1024 * 1024;
const ATTEMPTS = 3;

async function committedBytes(id) {
  const found = await getJson(documentPath(id));
  return found.object === "ingest" ? found.committed_bytes : 0;
}

/** Sends file[begin, end). The document, once the last part is there; otherwise how far the ingest is. `progress` gets each such line. */
async function sendPart(id, file, begin, end, progress, signal) {
  const response = await request("PUT", documentPath(id), {
    headers: { "Content-Range": `bytes ${begin}-${end - 1}/${file.size}`, Accept: "application/x-ndjson" },
    body: file.slice(begin, end), signal,
  });
  let last = {};
  for await (const line of jsonLines(response)) {
    last = line;
    if (!line.document) progress(line);
  }
  return last;
}

/** Resolves to the document. `begin`: the byte of the file where the server stands. */
export async function upload(id, file, begin, progress, signal) {
  if (file.size === 0) throw new ApiError(0, "The file is empty.");
  let failures = 0;
  for (let at = begin; ;) {
    const end = Math.min(at + PART_BYTES, file.size);
    try {
      const { document, committed_bytes: committed } = await sendPart(id, file, at, end, progress, signal);
      if (document) return document;
      if (end === file.size || !(committed > at)) throw new ApiError(0, "The server did not take the whole text.");
      at = committed; // whole blocks are committed: it may lie before the end of the part
      failures = 0;
    } catch (error) {
      const mayGoOn = error instanceof ApiError && [0, 416, 503].includes(error.status);
      failures += 1;
      if (!mayGoOn || failures >= ATTEMPTS) throw error;
      try {
        at = await committedBytes(id);
      } catch {
        throw error; // there is nothing to go on with: the first error says why
      }
    }
  }
}
