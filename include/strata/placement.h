// Where a model goes: devices and how they share it, as users say it on a command line.
//
// Purpose: plain data for EngineOptions; every field but the first may stay as it is, and the
// planner chooses.
// Threads: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata {

struct PlacementOptions {
  // Devices, in the order of their stages: "cpu", "cpu:0,cpu:1", "cpu:0-3/isa=avx2", and to plan
  // for, not to run on, "gpu:24GiB:936GB/s:71TFLOPS".
  std::string devices = "cpu";
  std::vector<std::string> memory;  // budgets: "cpu:0=2GiB"
  // none, layer, tensor (row is another word for it); empty: layer, or tensor with tensor_parallel
  std::string split;
  std::optional<uint32_t> tensor_parallel;   // devices of a tensor-parallel group
  std::string tensor_split;                  // shares of the devices: "70,30"
  std::optional<uint32_t> main_device;       // the one of split none
  std::optional<uint32_t> pipeline_copies;   // micro-batches in flight
  std::vector<std::string> override_tensor;  // "regex=device"; the first that matches counts
  std::optional<uint32_t> gpu_layers;        // layers that are not left to the host
  bool cpu_moe = false;                      // all experts with the host
  std::optional<uint32_t> n_cpu_moe;         // experts of so many layers with the host
  bool kv_offload = true;                    // else the cache stays with the host
  // Measure the devices' speed where the choice depends on it and no earlier measurement is kept.
  bool measure = true;
};

}  // namespace strata
