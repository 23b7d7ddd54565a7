// One file on its way into a document. It is sent in parts, each with its byte range, so that there is progress to show and an ingest
// that was broken off goes on where the server stands.
import { ApiError, documentPath, getJson, jsonLines, request } from "./api.js";

const PART_BYTES = 256 * 1024;
const ATTEMPTS = 3;

async function committedBytes(id) {
  const found = await getJson(documentPath(id));
  return found.object === "ingest" ? found.committed_bytes : 0;
}

/** Sends file[begin, end); `progress` gets the server's lines. The document, once the last part is there. */
async function sendPart(id, file, begin, end, progress, signal) {
  const response = await request("PUT", documentPath(id), {
    headers: { "Content-Range": `bytes ${begin}-${end - 1}/${file.size}`, Accept: "application/x-ndjson" },
    body: file.slice(begin, end), signal,
  });
  let published = null;
  for await (const line of jsonLines(response)) {
    if (line.document) published = line.document;
    else progress(line);
  }
  return published;
}

/** Resolves to the document. `begin`: the byte of the file where the server stands. */
export async function upload(id, file, begin, progress, signal) {
  if (file.size === 0) throw new ApiError(0, "The file is empty.");
  let failures = 0;
  for (let at = begin; ;) {
    const end = Math.min(at + PART_BYTES, file.size);
    try {
      const published = await sendPart(id, file, at, end, progress, signal);
      if (published) return published;
      if (end === file.size) throw new ApiError(0, "The server did not publish the document.");
      at = end;
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
