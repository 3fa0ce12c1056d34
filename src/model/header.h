// A model's description from less than the whole model: a header alone, or some files of a set.
//
// Purpose: to plan for a model before it is downloaded. A file may end anywhere after its tensor
// table; of a split model the first file is enough. Its metadata give the shapes of the tensors
// that are in the other files; their element types are those of the mixture that the metadata name
// (mixtures.h) where it is true of the layers that are there, else those of the same tensor there.
// Not for: data. What is described so cannot be loaded.
// Errors: as of gguf::File and read_spec; ErrorCode::unsupported when nothing tells the types.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "model/spec.h"

namespace strata::model {

struct PartialModel {
  ModelSpec spec;
  uint64_t derived = 0;  // tensors that are in files that are not there
  std::string note;      // what was derived and from what; empty when nothing
};

PartialModel open_header(const std::string& path);
// Of a file opened with ParseOptions::allow_missing_files.
PartialModel read_partial_spec(const gguf::File& file);

}  // namespace strata::model
