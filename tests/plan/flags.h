// Suggestions of plans, read as a user would paste them.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "plan/plan.h"
#include "tensor/types.h"

namespace strata::plan::test {

inline void apply_flags(const std::string& flags, Request& request) {
  std::istringstream in(flags);
  std::string word;
  const auto number = [&] {
    uint64_t value = 0;
    in >> value;
    EXPECT_TRUE(in) << flags;
    return value;
  };
  while (in >> word) {
    if (word == "-c") {
      request.n_context = number();
    } else if (word == "-ub") {
      request.n_ubatch = static_cast<uint32_t>(number());
    } else if (word == "-ctk" || word == "-ctv") {
      std::string name;
      in >> name;
      (word == "-ctk" ? request.type_k : request.type_v) = parse_type(name).value();
    } else if (word == "-ncmoe") {
      request.host_expert_layers = static_cast<uint32_t>(number());
    } else if (word == "-ngl") {
      std::string n;
      in >> n;
      request.device_layers.reset();
      if (n != "auto") request.device_layers = static_cast<uint32_t>(std::stoul(n));
    } else if (word == "-cmoe") {
      request.host_expert_layers = UINT32_MAX;
    } else if (word == "--pipeline-copies") {
      request.copies = static_cast<uint32_t>(number());
    } else if (word == "-sm") {
      std::string name;
      in >> name;
      EXPECT_EQ(name, "layer");
      request.split = Split::layer;
    } else if (word == "-tp") {
      EXPECT_EQ(number(), 1u);
      request.tensor_parallel = 0;
    } else if (word == "-ts") {
      std::string list;
      in >> list;
      request.shares.clear();
      std::istringstream shares(list);
      for (std::string share; std::getline(shares, share, ',');) {
        request.shares.push_back(std::stod(share));
      }
    } else {
      ADD_FAILURE() << "'" << word << "' is not known: " << flags;
    }
  }
}

}  // namespace strata::plan::test
