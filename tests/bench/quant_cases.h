// The cases of quant/ that are measured: every encoder on rows as models have them, beside ggml's.
#pragma once

#include <string>
#include <vector>

#include "tests/quant/coders.h"
#include "tests/quant/instruction_sets.h"
#include "tests/quant/peer_ggml.h"
#include "tests/quant/test_rows.h"

namespace bench {

// Rows of one matrix and the importance of its columns.
struct ModelRows {
  size_t row_values;
  std::vector<float> values;
  std::vector<float> importance;
};

// Bell-shaped values, with a scale per row, in BF16 as checkpoints have them; every eighth row has
// long tails. The importance spreads over two decades, like mean squares of activations.
inline ModelRows MakeModelRows(size_t rows, size_t row_values) {
  fuzz::Random random(5);
  ModelRows model{row_values, {}, {}};
  for (size_t row = 0; row < rows; ++row) {
    const float scale = 0.01f + 0.02f * std::abs(quant::Uniform(random));
    for (size_t i = 0; i < row_values; ++i) {
      const float bell = quant::Bell(random);
      const float value = scale * (row % 8 == 7 ? bell * bell * bell : bell);
      model.values.push_back(quant::AsBfloat16(value));
    }
  }
  for (size_t i = 0; i < row_values; ++i) {
    const float activation = quant::Bell(random);
    model.importance.push_back(0.01f + activation * activation);
  }
  return model;
}

// An encoder with or without importance.
struct EncoderCase {
  const quant::Format* format;
  bool weighted;

  std::string Name() const {
    return std::string(format->name) + (weighted ? "/importance" : "/plain");
  }
  std::vector<std::byte> Room(const ModelRows& rows) const {
    return std::vector<std::byte>(*format->BytesFor(rows.values.size()));
  }
  std::span<const float> Importance(const ModelRows& rows) const {
    return weighted ? std::span(rows.importance) : std::span<const float>();
  }
  void Ours(const ModelRows& rows, std::span<std::byte> out) const {
    format->encode(rows.values, Importance(rows), out);
  }
  void Peers(const quant::PeerGgml& peer, const ModelRows& rows, std::span<std::byte> out) const {
    peer.Encode(*format, rows.values, rows.row_values, Importance(rows), out);
  }
};

// Everything that ggml has too, except f32, which is a copy.
inline std::vector<EncoderCase> EncoderCases() {
  std::vector<EncoderCase> cases;
  for (const quant::Format* format : quant::Encoders()) {
    if (format->ggml_type < 0 || format->name == "f32") continue;
    if (!format->needs_importance) cases.push_back({format, false});
    if (format->uses_importance) cases.push_back({format, true});
  }
  return cases;
}

// Those of this machine; the scalar form, which is the reference, only if there is nothing else.
inline std::vector<quant::InstructionSet> MeasuredSets() {
  std::vector<quant::InstructionSet> sets;
  for (const quant::InstructionSet& set : quant::InstructionSets()) {
    if (set.present && (set.name != "scalar" || sets.empty())) sets.push_back(set);
  }
  return sets;
}

}  // namespace bench
