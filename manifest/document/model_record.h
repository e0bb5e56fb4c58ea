// What distribution.json says about the model that was split and about the files it was read from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/calibrate/calibrated_record.h"
#include "libshard/convert/model_card.h"

namespace moepack::manifest {

struct SourceRecord {
  std::string file;
  uint64_t size = 0;
  std::string header_sha256;  // of the bytes before the tensor data
  std::string sha256;         // of the whole file; "" unless requested (--hash-source)
  std::optional<Origin> origin = std::nullopt;  // of a file that was read from another machine
  // Every run that wrote a part read the whole file once, and `sha256` is the published one.
  bool whole = false;
  bool may_be_whole() const { return origin && !sha256.empty() && sha256 == origin->sha256; }
};

struct ModelRecord {
  std::string id, revision;  // as the user gave them; may be empty
  ModelLicense license;      // as stated by the model's authors; may be empty
  std::string family, architecture;
  std::string source_format;  // "safetensors" or "gguf"
  std::vector<SourceRecord> source;
  uint32_t layers = 0, mtp_layers = 0;
  LayerCounts moe_layers;              // layer -> experts
  std::map<uint32_t, uint32_t> top_k;  // layer -> top-k
  uint32_t hidden_size = 0, expert_intermediate_size = 0, vocab_size = 0;
  std::string gating;
  bool normalize = true;
  std::optional<double> scale;
  uint32_t shared_experts = 0, expert_groups = 0, expert_groups_used = 0;
  uint64_t parameters_total = 0, parameters_active = 0;
  std::optional<CalibrationKeys> calibrated;  // as a GGUF that was calibrated says of itself
};

}  // namespace moepack::manifest
