// Command lines of llama-server run unchanged, and what has no meaning here is said.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { networkInterfaces } from "node:os";
import { describe, test } from "node:test";
import { binary, demo, demoName, Server } from "./server.mjs";

const QUESTION = { model: demoName, temperature: 0, messages: [{ role: "user", content: "What is the opposite of hot?" }] };

function answerOf(body) {
  return body.choices[0].message.content;
}

describe("command lines of others", () => {
  test("all of a long one: it starts, answers, and says what does nothing", async () => {
    const words = [
      "--verbosity", "4", "--no-op-offload", "-fa", "on", "--mlock", "-ngl", "999", "--temp", "0.6", "--top-k", "20",
      "--top-p", "0.95", "--presence-penalty", "0.0", "--cache-type-k", "f16", "--cache-type-v", "q8_0",
      "--host", "0.0.0.0",
    ];
    const server = await Server.start({ words });
    try {
      assert.equal(answerOf(await server.json("/v1/chat/completions", QUESTION)), "Cold.");
      for (const option of ["op-offload", "-fa", "-ngl"]) {
        const said = server.log.split("\n").filter((line) => line.includes(option));
        assert.ok(said.length > 0, `nothing is said of ${option}:\n${server.log}`);
      }
      // What has a meaning is not called meaningless.
      assert.doesNotMatch(server.log, /--(temp|top-k|top-p|cache-type-v)\b.*(no effect|does nothing|nothing to)/);
      // Open to others by request: that is said too, and other names of the host are let in.
      assert.match(server.log, /warning.*0\.0\.0\.0/);
      const others = Object.values(networkInterfaces()).flat()
        .filter((one) => one.family === "IPv4" && !one.internal);
      for (const { address } of others.slice(0, 1)) {
        const health = await fetch(`http://${address}:${server.port}/health`);
        assert.deepEqual(await health.json(), { status: "ok" });
      }
      // What requests do not say comes from the command line.
      const native = await server.json("/completion", { prompt: "Once", n_predict: 1 });
      const { generation_settings: settings } = native;
      assert.equal(settings.temperature, 0.6);
      assert.equal(settings.top_k, 20);
      assert.equal(settings.top_p, 0.95);
      assert.equal(settings.presence_penalty, 0);
    } finally {
      assert.equal(await server.stop(), 0);
    }
  });

  test("more of llama-server's options", async () => {
    const words = [
      "-c", "4096", "-np", "2", "-cb", "-b", "512", "-ub", "128", "--jinja", "-a", "my-model", "--slots",
      "-n", "16", "-s", "7", "--min-p", "0.05", "--repeat-penalty", "1.1", "-ctk", "q8_0", "-fa", "auto", "--no-mmap",
    ];
    const server = await Server.start({ words });
    try {
      const answer = await server.json("/v1/chat/completions", { messages: QUESTION.messages });
      assert.equal(answer.model, "my-model");
      assert.ok(answer.usage.completion_tokens <= 16);
    } finally {
      assert.equal(await server.stop(), 0);
    }
  });

  test("every flag has a twin in the environment", async () => {
    const env = { ...process.env, STRATA_MODEL: demo, STRATA_PORT: "70000" };
    const run = spawnSync(binary, ["serve"], { env, encoding: "utf8", timeout: 20000 });
    assert.equal(run.status, 2);
    assert.match(run.stderr, /STRATA_PORT/);
  });

  test("a flag that is not known is refused with the nearest one", () => {
    const run = spawnSync(binary, ["serve", "-m", demo, "--api-kez", "x"], { encoding: "utf8", timeout: 20000 });
    assert.equal(run.status, 2);
    assert.match(run.stderr, /--api-key/);
  });

  test("a port that is taken is an error that says so", async () => {
    const server = await Server.start({ words: ["-c", "512"] });
    try {
      const run = spawnSync(binary, ["serve", "-m", demo, "-c", "512", "--port", String(server.port)], {
        encoding: "utf8", timeout: 20000,
      });
      assert.equal(run.status, 1);
      assert.match(run.stderr, new RegExp(String(server.port)));
    } finally {
      await server.stop();
    }
  });
});
