// The names of tests: pp512, tg64, tg32@4096 (after 4096 tokens), tg32x16@128 (16 sequences
// together, each after 128 tokens of its own).

export function parseTest(name) {
  const match = /^(pp|tg)(\d+)(?:x(\d+))?(?:@(\d+))?$/.exec(name);
  if (!match) throw new Error(`'${name}' is not a test; write pp512, tg64, tg32@4096 or tg32x16@128`);
  const test = {
    name,
    kind: match[1],
    count: Number(match[2]),
    sequences: Number(match[3] ?? 1),
    depth: Number(match[4] ?? 0),
  };
  if (test.count < 1 || test.sequences < 1) throw new Error(`'${name}' measures nothing`);
  if (test.kind === "pp" && test.sequences > 1) {
    throw new Error(`'${name}': prompts are read one at a time; several sequences are for tg`);
  }
  return test;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
