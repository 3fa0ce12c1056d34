// What both sides of the load test share: the requests, and how their times are summed up.

export const now = () => performance.now() / 1000;
export const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

// Numbers from 0 to below n, the same on every machine and for both sides.
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * n);
  };
}

// Ids that are ordinary text in any vocabulary: the first few hundred may be control tokens or bytes.
export function randomTokens(random, n, vocabulary) {
  const from = Math.min(300, vocabulary >> 1);
  return Array.from({ length: n }, () => from + random(vocabulary - from));
}

// Prompts of mixed lengths, answers of 64 to 128 tokens.
const PROMPT_LENGTHS = [16, 32, 64, 128, 256];
export const LONGEST_REQUEST = Math.max(...PROMPT_LENGTHS) + 128;
export function nextRequest(random, vocabulary) {
  const prompt = randomTokens(random, PROMPT_LENGTHS[random(PROMPT_LENGTHS.length)], vocabulary);
  return { prompt, count: 64 + random(65) };
}

export function quantile(sorted, share) {
  if (sorted.length === 0) return null;
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

export function quantiles(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), p99: quantile(sorted, 0.99) };
}

export function median(values) {
  return quantile([...values].sort((a, b) => a - b), 0.5);
}

// Keeps `clients` busy for `seconds`; each asks, reads the whole answer and asks again.
// `generate(client, {prompt, count}, onToken, stopped)` streams one answer, calling onToken for each
// token, until it has ended or stopped() holds. Sums up what happened before the time was over.
export async function load({ clients, seconds, vocabulary, seed, generate }) {
  const start = now();
  const end = start + seconds;
  const first = [];
  const between = [];
  let tokens = 0;
  let requests = 0;
  const one = async (client) => {
    const random = randomNumbers(seed * 1000 + client);
    while (now() < end) {
      const request = nextRequest(random, vocabulary);
      const asked = now();
      let last = null;
      await generate(client, request, () => {
        const at = now();
        if (at > end) return;
        ++tokens;
        if (last === null) first.push(at - asked);
        else between.push(at - last);
        last = at;
      }, () => now() >= end);
      if (now() < end) ++requests;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => one(client)));
  return { clients, seconds, requests, tokens, tps: tokens / seconds, first: quantiles(first), between: quantiles(between) };
}

// Tokens of each answer that are measured before the long prompt comes, and that it has room for.
const STALL_BEFORE = 200;
export const STALL_ROOM = 8192;

// Times between tokens of `streams` running answers, for 200 tokens of each (or `seconds`) and then
// while a prompt of `length` tokens is read beside them. `open(stream, {prompt, count}, onToken)` starts one that can be
// left with its result's stop(), and resolves when that ended.
export async function stall({ streams, seconds, length, vocabulary, seed, open }) {
  const random = randomNumbers(seed);
  const before = [];
  const during = [];
  let reading = null;
  let started = false;
  const running = [];
  const begun = [];
  for (let i = 0; i < streams; ++i) {
    let last = null;
    begun.push(new Promise((ready) => {
      running.push(open(i, { prompt: randomTokens(random, 32, vocabulary), count: STALL_ROOM }, () => {
        const at = now();
        if (last === null) ready();
        else if (reading !== null) during.push(at - last);
        else if (started) before.push(at - last);
        last = at;
      }));
    }));
  }
  await Promise.all(begun);
  started = true;
  const until = now() + seconds;
  while (before.length < streams * STALL_BEFORE && now() < until) await sleep(0.01);
  reading = now();
  let read = null;
  const long = { prompt: randomTokens(random, length, vocabulary), count: 2 };
  const reader = open(streams, long, () => (read ??= now() - reading));
  while (read === null) await sleep(0.005);
  for (const one of running) one.stop();
  reader.stop();
  await Promise.all([...running, reader].map((one) => one.ended));
  const alone = quantiles(before);
  const beside = quantiles(during);
  return { streams, length, read, before: alone, during: beside, ratio: beside.p95 / alone.p95 };
}
