#!/usr/bin/env python3
"""Whether strata serve stays what it was, whatever its clients do.

Usage: server_soak.py STRATA [-m MODEL] [--seconds 120] [--clients 200] [--requests 2000]

1. Clients come and vanish at random for the given time: in the middle of a request, while it waits,
   while its answer is made or read, with and without a goodbye; some stay and check their answer.
   Afterwards the server must be idle and its resident memory what it was after the first quarter.
2. That many greedy requests at once, streamed and not: each must return what it returns alone.
3. SIGTERM while streams run: they end, and the exit status is 0.

Prints figures; the exit status is 1 when something was wrong.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

WORDS = ["Once upon a time", "Tom and Mia", "The dog", "One day,", "She said", "A little bird",
         "In the garden", "The red ball", "Ben was sad", "It was a sunny day"]


class Server:
    def __init__(self, binary, model, *options):
        self.process = subprocess.Popen(
            [binary, "serve", "-m", model, "--port", "0", "-v", *options],
            stderr=subprocess.PIPE, text=True)
        self.said = []
        self.port = None
        for line in self.process.stderr:
            self.said.append(line)
            found = re.search(r"listening on http://[^:]+:(\d+);", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            sys.exit("the server did not start: " + "".join(self.said))
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stderr:
            self.said = self.said[-50:] + [line]

    def figures(self):
        """Resident MiB, anonymous MiB, threads, open files."""
        text = open(f"/proc/{self.process.pid}/status").read()
        get = lambda name: int(re.search(name + r":\s+(\d+)", text).group(1))
        return (get("VmRSS") / 1024, get("RssAnon") / 1024, get("Threads"),
                len(os.listdir(f"/proc/{self.process.pid}/fd")))


def body(which, stream):
    return json.dumps({"prompt": WORDS[which % len(WORDS)], "max_tokens": 8 + which % 13,
                       "temperature": 0, "stream": stream}).encode()


def request(which, stream):
    data = body(which, stream)
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)) + data


def text_of(answer):
    """Status and text of a whole answer, streamed or not."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head[9:12]) if head.startswith(b"HTTP/1.1 ") else 0
    if b"chunked" in head:
        whole = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            n = int(size, 16)
            if n == 0:
                break
            whole, rest = whole + rest[:n], rest[n + 2:]
        else:
            return 0, "the last chunk is missing"
        text, done = "", False
        for line in whole.decode().split("\n"):
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: {"):
                for choice in json.loads(line[6:]).get("choices", []):
                    text += choice["text"]
        return (status, text) if done else (0, whole.decode())
    if status != 200:
        return status, rest.decode(errors="replace")
    return status, json.loads(rest)["choices"][0]["text"]


async def connect(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return reader, writer


async def ask(port, which, stream):
    reader, writer = await connect(port)
    writer.write(request(which, stream))
    answer = await reader.read(-1)
    writer.close()
    return text_of(answer)


async def get(port, path):
    reader, writer = await connect(port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read(-1)
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def vanish(port, end, want, counts, seed):
    rng = random.Random(seed)
    while time.monotonic() < end:
        which, stream = rng.randrange(130), rng.random() < 0.5
        try:
            action = rng.randrange(6)
            if action == 0:
                status, text = await asyncio.wait_for(ask(port, which, stream), 120)
                if status == 200 and text == want[which]:
                    counts["right"] += 1
                elif status in (429, 503):
                    counts["full"] += 1
                else:
                    counts["wrong"] += 1
                    print("wrong:", status, repr(text)[:200], "not", repr(want[which]))
                continue
            reader, writer = await connect(port)
            data = request(which, stream)
            if action == 1:
                writer.write(data[:rng.randrange(len(data))])
                await asyncio.sleep(rng.random() * 0.5)
            elif action == 2:
                writer.write(data)
                await asyncio.sleep(rng.random() ** 3)
            elif action == 3:
                writer.write(data)
                await asyncio.wait_for(reader.read(1 + rng.randrange(500)), 60)
            elif action == 4:
                long = json.dumps({"prompt": "dog " * rng.randrange(1, 800), "max_tokens": 300,
                                   "ignore_eos": True, "stream": stream}).encode()
                writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: a.localhost\r\n\r\n"
                             if rng.random() < 0.1 else
                             b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                             b"Content-Length: %d\r\n\r\n" % len(long) + long)
                await asyncio.sleep(rng.random())
            if rng.random() < 0.5:
                # Without a goodbye.
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
            counts["vanished"] += 1
        except (ConnectionError, asyncio.IncompleteReadError):
            counts["cut off"] += 1
        except asyncio.TimeoutError:
            counts["late"] += 1


async def idle(port, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = json.loads(await get(port, "/slots"))
        busy = state["running"] + state["waiting"] if isinstance(state, dict) else sum(
            bool(slot.get("is_processing")) for slot in state)
        if busy == 0:
            return True
        await asyncio.sleep(0.05)
    return False


async def watch(server, end, rows):
    while time.monotonic() < end:
        rows.append((time.monotonic(), *server.figures()))
        await asyncio.sleep(1)


async def vanishing(server, seconds, clients, want):
    counts = dict.fromkeys(["right", "wrong", "full", "vanished", "cut off", "late"], 0)
    begun = time.monotonic()
    end = begun + seconds
    rows = []
    watcher = asyncio.create_task(watch(server, end, rows))
    slow = 0.0

    async def health():
        nonlocal slow
        while time.monotonic() < end:
            at = time.monotonic()
            if b"ok" not in await get(server.port, "/health"):
                counts["wrong"] += 1
            slow = max(slow, time.monotonic() - at)
            await asyncio.sleep(0.5)

    await asyncio.gather(health(), *(vanish(server.port, end, want, counts, i)
                                     for i in range(clients)))
    await watcher
    at = time.monotonic()
    is_idle = await idle(server.port, 30)
    print(f"vanishing: {seconds} s, {clients} clients: {counts}")
    print(f"  idle {time.monotonic() - at:.2f} s after the end: {is_idle}; "
          f"slowest /health {slow * 1e3:.0f} ms")
    await asyncio.sleep(12)  # free threads end
    rows.append((time.monotonic(), *server.figures()))
    print("  s: resident MiB, anonymous MiB, threads, files")
    for i in list(range(0, len(rows) - 1, max(1, len(rows) // 8))) + [len(rows) - 1]:
        row = rows[i]
        print(f"  {row[0] - begun:5.0f}: {row[1]:.1f}, {row[2]:.1f}, {row[3]}, {row[4]}")
    quarter = max(row[2] for row in rows[len(rows) // 8:len(rows) // 4 + 1])
    grown = rows[-1][2] - quarter
    print(f"  anonymous memory at the end against the first quarter: {grown:+.1f} MiB")
    return is_idle and counts["wrong"] == 0 and counts["late"] == 0 and grown < 16


async def at_once(server, n, want):
    at = time.monotonic()
    rows = []
    watcher = asyncio.create_task(watch(server, time.monotonic() + 3600, rows))
    answers = await asyncio.gather(*(ask(server.port, i % 130, i % 2 == 1) for i in range(n)),
                                   return_exceptions=True)
    watcher.cancel()
    wrong = [(i, a) for i, a in enumerate(answers) if a != (200, want[i % 130])]
    tokens = sum(8 + (i % 130) % 13 for i in range(n))
    seconds = time.monotonic() - at
    print(f"at once: {n} requests, {len(wrong)} wrong, {seconds:.1f} s, "
          f"up to {tokens / seconds:.0f} tokens/s; most threads {max(row[3] for row in rows)}, "
          f"resident {max(row[1] for row in rows):.0f} MiB")
    for i, answer in wrong[:5]:
        print("  wrong:", i, repr(answer)[:300], "not", repr(want[i % 130]))
    return not wrong


async def stopped(server):
    data = json.dumps({"prompt": "Once", "max_tokens": 400, "ignore_eos": True,
                       "stream": True}).encode()
    pairs = []
    for _ in range(8):
        reader, writer = await connect(server.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(data) + data)
        await reader.readuntil(b"data: ")
        pairs.append((reader, writer))
    server.process.send_signal(signal.SIGTERM)
    at = time.monotonic()
    ends = [await reader.read(-1) for reader, _ in pairs]
    whole = sum(b"data: [DONE]" in end and end.endswith(b"\r\n0\r\n\r\n") for end in ends)
    status = await asyncio.to_thread(server.process.wait, 60)
    print(f"stopped: {whole} of 8 streams ended, exit status {status} after "
          f"{time.monotonic() - at:.2f} s")
    return whole == 8 and status == 0


async def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("-m", "--model", default=os.path.join(root, "models", "demo-q8_0.gguf"))
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--requests", type=int, default=2000)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    server = Server(options.binary, options.model, "-np", "8", "-c", "8192", "--max-queue",
                    "100000", "--max-connections", str(2 * options.requests + options.clients))
    try:
        want = []
        for i in range(130):
            status, text = await ask(server.port, i, False)
            assert status == 200, text
            want.append(text)
        good = True
        if options.seconds > 0:
            good &= await vanishing(server, options.seconds, options.clients, want)
        if options.requests > 0:
            good &= await at_once(server, options.requests, want)
        good &= await stopped(server)
    finally:
        server.process.kill()
    sys.exit(0 if good else 1)


asyncio.run(main())
