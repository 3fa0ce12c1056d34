#!/usr/bin/env python3
"""Several devices against one: the targets of docs/multi-device.md as a table of ratios.

Devices are cores of this machine (cpu:0, cpu:1). Speeds of a shared machine come and go, so both
sides of a comparison run in turns, A B, B A, ..., each in a process of its own, and what counts is
the median of the ratios of the pairs. Needs python3 and a built strata, nothing else.

  bench/multi_device.py                       all of it, five pairs each
  bench/multi_device.py -r 1 --quick          does it work?
  bench/multi_device.py --only stages,plan    some of it
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SHAPE = "llama-1b"
TYPE = "q4_k_m"
EIGHT = ",".join(["gpu:24GiB:936GB/s:71TFLOPS"] * 7 + ["cpu:256GiB:100GB/s"])
MIB = 1048576


class Table:
    """Rows of (what, measured, target, whether it is met), printed as they come."""

    def __init__(self, form):
        self.form = form
        self.rows = []
        if form == "md":
            print("| what | measured | target | |")
            print("|---|---:|---:|---|", flush=True)

    def add(self, what, value, text, target, met):
        self.rows.append({"what": what, "value": value, "target": target, "met": met})
        if self.form == "md":
            print(f"| {what} | {text} | {target} | {'yes' if met else 'no'} |", flush=True)

    def ratio(self, what, values, least):
        middle = statistics.median(values)
        spread = "" if len(values) == 1 else f" ({min(values):.2f} to {max(values):.2f})"
        self.add(what, middle, f"{middle:.2f}×{spread}", f"≥ {least:.2f}×", middle >= least)

    def finish(self):
        if self.form == "json":
            print(json.dumps(self.rows, indent=2, ensure_ascii=False))
        return all(row["met"] for row in self.rows)


class Bench:
    def __init__(self, arguments, model):
        self.strata = arguments.strata
        self.model = model
        self.pairs = arguments.r
        self.verbose = arguments.v
        self.short = 8 if arguments.quick else 1

    def strata_json(self, words):
        if self.verbose:
            print("+ strata", " ".join(words), file=sys.stderr, flush=True)
        done = subprocess.run([self.strata, *words, "-o", "json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"strata {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def prompt(self, n):
        return ["-p", str(n // self.short), "-n", "0"]

    def steps(self, n, sequences=1):
        return ["-p", "0", "-n", str(n // self.short), "-npl", str(sequences)]

    def speed(self, devices, work):
        """Tokens per second of one test on devices (words for -dev and -sm)."""
        rows = self.strata_json(["bench", "-m", self.model, "-r", "1", *devices, *work])
        if len(rows) != 1:
            sys.exit(f"one test was asked for, {len(rows)} were run")
        return rows[0]["tps"]

    def in_turns(self, work, *sides):
        """Lists of speeds, one for each side, of as many rounds; every second one backwards."""
        speeds = [[] for _ in sides]
        for i in range(self.pairs):
            order = range(len(sides)) if i % 2 == 0 else reversed(range(len(sides)))
            for side in order:
                speeds[side].append(self.speed(sides[side], work))
        return speeds

    def ratios(self, work, ours, other):
        a, b = self.in_turns(work, ours, other)
        return [x / y for x, y in zip(a, b)]


ONE = ["-dev", "cpu:0"]
BOTH = ["-dev", "cpu:0-1"]
STAGES = ["-dev", "cpu:0,cpu:1", "-sm", "layer"]
SHARDS = ["-dev", "cpu:0,cpu:1", "-sm", "tensor"]
UNLIKE = "cpu:0,cpu:1/isa=avx2"


def stages(bench, table):
    table.ratio("2 stages, prefill 2048 (-ub 256), against one core",
                bench.ratios([*bench.prompt(2048), "-ub", "256"], STAGES, ONE), 1.85)
    for n in (2, 4):
        table.ratio(f"2 stages, decode of {n} sequences, against one core",
                    bench.ratios(bench.steps(64, n), STAGES, ONE), 1.7)


def shards(bench, table):
    table.ratio("2 shards, decode of one sequence, against one core",
                bench.ratios(bench.steps(64), SHARDS, ONE), 1.85)
    table.ratio("2 shards, prefill 512, against one core",
                bench.ratios(bench.prompt(512), SHARDS, ONE), 1.8)
    for name, work in (("decode of one sequence", bench.steps(64)),
                       ("prefill 512", bench.prompt(512))):
        table.ratio(f"2 shards, {name}, against one device of two cores",
                    bench.ratios(work, SHARDS, BOTH), 0.92)


def unlike(bench, table):
    """Devices of different instruction sets, by measured shares, against the sum of both alone."""
    fast, slow = (["-dev", device] for device in UNLIKE.split(","))
    for name, work, split in (("prefill 512, shards", bench.prompt(512), "tensor"),
                              ("prefill 2048 (-ub 256), stages",
                               [*bench.prompt(2048), "-ub", "256"], "layer"),
                              ("decode of one sequence, shards", bench.steps(64), "tensor"),
                              ("decode of 4 sequences, stages", bench.steps(64, 4), "layer")):
        both, one, other = bench.in_turns(work, ["-dev", UNLIKE, "-sm", split], fast, slow)
        table.ratio(f"unlike devices, {name}, against the sum of both alone",
                    [x / (y + z) for x, y, z in zip(both, one, other)], 0.9)


def compute(bench, table):
    """What plans say; they are the run byte for byte (--audit-memory)."""
    for shape, limit, devices in ((SHAPE, 40, "cpu:0,cpu:1"),
                                  ("llama-3.1-70b", 120, "gpu:64GiB,gpu:64GiB")):
        largest = 0
        for context in (4096, 131072):
            plan = bench.strata_json(["plan", "--shape", shape, "--type", TYPE, "-dev", devices,
                                      *memory_for(devices), "-c", str(context), "-ub", "512",
                                      "--pipeline-copies", "1"])
            largest = max(largest, *(device["compute"] for device in plan["devices"]))
        table.add(f"compute memory of a device, {shape}, 1 copy, 4 k and 128 k",
                  largest / MIB, f"{largest / MIB:.1f} MiB", f"≤ {limit} MiB",
                  largest <= limit * MIB)
    more = set()
    for context in (4096, 131072):
        totals = []
        for copies in (1, 4):
            plan = bench.strata_json(["plan", "--shape", "llama-3.1-70b", "--type", TYPE, "-dev",
                                      "gpu:96GiB,gpu:96GiB", "-ts", "1,1", "-c", str(context),
                                      "-ub", "512", "--pipeline-copies", str(copies)])
            totals.append(sum(device["total"] for device in plan["devices"]))
        more.add(totals[1] - totals[0])
    exact = 3 * 512 * 8192 * 4
    table.add("4 copies against 1, llama-3.1-70b, 4 k and 128 k", max(more) / MIB,
              ", ".join(f"+{n / MIB:.1f} MiB" for n in sorted(more)), f"+{exact / MIB:.1f} MiB",
              more == {exact})


def memory_for(devices):
    """Budgets of described cards large enough for any context: plans touch nothing."""
    return ["--memory", "gpu0=512GiB,gpu1=512GiB"] if devices.startswith("gpu") else []


def plan(bench, table):
    """Time and memory of planning; the best of several runs, as others use the machine too."""
    words = [bench.strata, "plan", "--shape", "llama-3.1-405b", "--type", TYPE, "-dev", EIGHT]
    seconds, peak = [], 0
    for _ in range(max(3, bench.pairs)):
        begin = time.perf_counter()
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds.append(time.perf_counter() - begin)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit("strata plan failed")
        peak = max(peak, usage.ru_maxrss * 1024)
    table.add("strata plan, llama-3.1-405b on 8 devices, time", min(seconds),
              f"{min(seconds):.2f} s", "≤ 0.2 s", min(seconds) <= 0.2)
    table.add("strata plan, llama-3.1-405b on 8 devices, memory", peak / MIB,
              f"{peak / MIB:.0f} MiB", "≤ 100 MB", peak <= 100e6)


def predicted(bench, table):
    """Of a prompt of 2048 tokens and of decode at the beginning, as `strata plan` predicts them."""
    for name, devices in (("one core", ONE), ("2 stages", STAGES), ("2 shards", SHARDS)):
        said = bench.strata_json(["plan", "-m", bench.model, *devices])
        for work, key, tests in (("prefill", "prefill_per_second", bench.prompt(2048)),
                                 ("decode", "decode_per_second", bench.steps(64))):
            if not said[key]:
                sys.exit(f"strata plan predicts no {work} speed for {name}")
            values = bench.in_turns(tests, devices)[0]
            ratio = said[key] / statistics.median(values)
            table.add(f"predicted {work} against measured, {name}", ratio,
                      f"{said[key]:.1f} / {statistics.median(values):.1f} = {ratio:.2f}",
                      "0.80 to 1.20", 0.8 <= ratio <= 1.2)


PARTS = {part.__name__: part for part in (compute, plan, stages, shards, unlike, predicted)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--strata", default=os.path.join(here, "..", "build", "strata"),
                        help="the binary (default: build/strata)")
    parser.add_argument("-m", "--model", help="GGUF file; without it one is made, and removed")
    parser.add_argument("-r", type=int, default=5, help="pairs of runs (default: 5)")
    parser.add_argument("--only", default=",".join(PARTS),
                        help=f"parts, separated by commas (default: {','.join(PARTS)})")
    parser.add_argument("--quick", action="store_true",
                        help="an eighth of the lengths: to see that it works, not how fast")
    parser.add_argument("-o", choices=("md", "json"), default="md", help="form of the table")
    parser.add_argument("-v", action="store_true", help="show the commands")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"--only: '{part}' is not known; known are {', '.join(PARTS)}")
    if arguments.r < 1:
        parser.error("-r: at least 1")
    if not os.access(arguments.strata, os.X_OK):
        parser.error(f"no binary at {arguments.strata}; build it or give --strata")
    runs = any(part not in ("compute", "plan") for part in parts)
    if runs and len(os.sched_getaffinity(0)) < 2:
        parser.error("two cores are needed")
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model
        if runs and not model:
            model = os.path.join(folder, f"{SHAPE}-{TYPE}.gguf")
            subprocess.run([arguments.strata, "synth", "--shape", SHAPE, "--type", TYPE, "-o",
                            model], check=True)
        table = Table(arguments.o)
        bench = Bench(arguments, model)
        for part in parts:
            PARTS[part](bench, table)
    return 0 if table.finish() else 1


if __name__ == "__main__":
    sys.exit(main())
