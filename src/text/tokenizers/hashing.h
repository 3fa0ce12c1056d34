// Hashing for the flat tables of the tokenizers.
//
// The seed differs from process to process, so that nobody can craft a vocabulary or a text whose
// strings all fall into one slot. Results of tokenizing never depend on it.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace strata::text {

// Drawn once per process.
uint64_t hash_seed();

inline uint64_t mix_bits(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t load_word(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

inline constexpr uint64_t k_hash_multiplier = 0x9E3779B97F4A7C15ULL;

inline uint64_t hash_number(uint64_t value, uint64_t seed) {
  return mix_bits(value ^ seed, k_hash_multiplier);
}

inline uint64_t hash_bytes(std::string_view text, uint64_t seed) {
  const char* data = text.data();
  size_t left = text.size();
  uint64_t hash = seed ^ (text.size() * k_hash_multiplier);
  while (left > 16) {
    hash = mix_bits(load_word(data) ^ hash, load_word(data + 8) ^ k_hash_multiplier ^ seed);
    data += 16;
    left -= 16;
  }
  uint64_t low = 0;
  uint64_t high = 0;
  if (left >= 8) {
    low = load_word(data);
    high = load_word(data + left - 8);
  } else if (left >= 4) {
    uint32_t first = 0;
    uint32_t last = 0;
    std::memcpy(&first, data, 4);
    std::memcpy(&last, data + left - 4, 4);
    low = first;
    high = last;
  } else if (left > 0) {
    low = static_cast<uint8_t>(data[0]);
    high = static_cast<uint64_t>(static_cast<uint8_t>(data[left / 2])) << 8 |
           static_cast<uint8_t>(data[left - 1]);
  }
  return mix_bits(mix_bits(low ^ hash, high ^ k_hash_multiplier ^ seed), k_hash_multiplier);
}

}  // namespace strata::text
