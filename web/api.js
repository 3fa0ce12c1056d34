// Talking to the server: the key, errors in plain words, streams of events.
// Addresses are relative to the page, so that it works behind a proxy's path too.
import { apiKey } from "./store.js";

/** What went wrong, as one line for people. `kind` says what can be done about it. */
export class ServerError extends Error {
  constructor(kind, message, detail = "") {
    super(message);
    this.kind = kind;  // key, full, busy, loading, lost, request, server
    this.detail = detail;
  }
}

// A stream says at least a comment every quarter of a minute; one that is still for so long is dead.
const SILENCE_MS = 75_000;

function fromAnswer(status, body, retryAfter) {
  let error = null;
  try {
    error = JSON.parse(body).error;
  } catch {
    // Not ours: a proxy's page, say.
  }
  const type = typeof error?.type === "string" ? error.type : "";
  const said = typeof error?.message === "string" ? error.message : "";
  return inWords(status, type, said, retryAfter);
}

function inWords(status, type, said, retryAfter = null) {
  if (status === 401) {
    return new ServerError("key", "The server asks for a key, and the one it got is missing or wrong.",
                           said);
  }
  if (status === 403) return new ServerError("request", "The server does not answer to this address.", said);
  if (type === "exceed_context_size_error") {
    return new ServerError("full", "The conversation is longer than the model's context. Begin a new one, " +
      "delete or shorten messages, or start the server with a larger context (-c).", said);
  }
  if (status === 413) {
    return new ServerError("request", "The message is larger than the server takes.", said);
  }
  if (status === 429) {
    const wait = Number(retryAfter) > 1 ? ` in ${Number(retryAfter)} seconds` : " in a moment";
    return new ServerError("busy", `The server has as many requests as it takes. Try again${wait}.`, said);
  }
  if (status === 503) {
    return new ServerError("loading", "The server is not ready yet. Try again in a moment.", said);
  }
  if (status === 502 || status === 504) {
    return new ServerError("lost", "Something between this page and the server does not reach it.", said);
  }
  if (status >= 400 && status < 500) {
    return new ServerError("request", said || `The server refused the request (${status}).`);
  }
  return new ServerError("server", said || `The server failed (${status}).`);
}

const lost = () => new ServerError("lost", "The connection to the server is lost. Is it still running?");

async function request(path, { body = null, signal = null } = {}) {
  const headers = {};
  if (body !== null) headers["Content-Type"] = "application/json";
  const key = apiKey();
  if (key !== "") headers.Authorization = `Bearer ${key}`;
  let answer;
  try {
    answer = await fetch(path, {
      method: body === null ? "GET" : "POST",
      headers,
      body: body === null ? null : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw lost();
  }
  if (!answer.ok) {
    const text = await answer.text().catch(() => "");
    throw fromAnswer(answer.status, text, answer.headers.get("retry-after"));
  }
  return answer;
}

export async function getJson(path, signal = null) {
  const answer = await request(path, { signal });
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("server", "What answered is not a server of this page's kind.");
  }
}

/** Splits a stream's text into the data of its events. */
export class EventReader {
  #rest = "";
  #data = [];

  /** Data of the events that are complete with this piece. */
  push(piece) {
    const out = [];
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop();
    for (let line of lines) {
      if (line.endsWith("\r")) line = line.slice(0, -1);
      if (line === "") {
        if (this.#data.length > 0) out.push(this.#data.join("\n"));
        this.#data = [];
      } else if (line.startsWith("data:")) {
        this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return out;
  }
}

/**
 * A streamed chat. `on(chunk)` gets every JSON object; the promise ends with the stream, with an
 * AbortError after `abort`, with a ServerError otherwise.
 */
export async function streamChat(body, abort, on) {
  const quiet = new AbortController();
  const signal = quiet.signal;
  let silent = false;
  const stop = () => quiet.abort();
  abort.addEventListener("abort", stop);
  if (abort.aborted) stop();
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { silent = true; quiet.abort(); }, SILENCE_MS);
  };
  try {
    const answer = await request("v1/chat/completions", { body, signal });
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    const events = new EventReader();
    let ended = false;
    for (;;) {
      alive();
      let piece;
      try {
        piece = await reader.read();
      } catch (error) {
        throw error.name === "AbortError" ? error : lost();
      }
      const { value, done } = piece;
      if (done) break;
      for (const data of events.push(decoder.decode(value, { stream: true }))) {
        if (data === "[DONE]") {
          ended = true;
          continue;
        }
        let chunk;
        try {
          chunk = JSON.parse(data);
        } catch {
          throw new ServerError("server", "The server sent something that is no answer.");
        }
        if (chunk.error) {
          const { type = "", message = "", code = 500 } = chunk.error;
          throw inWords(Number(code) || 500, type, String(message));
        }
        if (chunk.choices?.[0]?.finish_reason) ended = true;
        on(chunk);
      }
    }
    if (!ended) {
      throw new ServerError("lost", "The connection broke off in the middle of the answer.");
    }
  } catch (error) {
    throw silent ? lost() : error;
  } finally {
    clearTimeout(timer);
    abort.removeEventListener("abort", stop);
    quiet.abort();
  }
}
