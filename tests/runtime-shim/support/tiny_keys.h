// The metadata of the models of tiny_weights.h, and the sizes that it states.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "libshard/format/gguf_metadata.h"

namespace moepack::runtime::tiny {

constexpr uint32_t kLayers = 2, kWidth = 32, kVocabulary = 40, kExperts = 8, kInner = 16;
constexpr uint32_t kHeads = 4, kKeyHeads = 2, kHeadWidth = 8;
constexpr uint32_t kRank = 12, kNope = 8, kRotated = 4, kValueWidth = 6, kQueryRank = 20;
constexpr uint32_t kDeltaWidth = 6;
constexpr uint32_t kGroups = 2, kGroupRank = 6, kStreams = 2, kTableRows = 7, kTableWidth = 5;

class Keys {
 public:
  Keys(std::string architecture, GgufMetadata& metadata);
  void Write();

 private:
  bool Is(const char* name) const { return architecture_ == name; }
  void Key(const char* key, GgufValue value) {
    metadata_.Set(architecture_ + "." + key, std::move(value));
  }
  void StreamKeys();
  void NemotronKeys();
  void MambaKeys();
  void KeyHeadsOfTheSecondLayer();
  void GraniteHybridKeys();
  void LagunaKeys();
  void IndexerKeys();
  void HybridKeys();
  void KdaKeys();
  void KimiKeys();
  void CompressedKeys();
  void BlockKeys();
  void CommandKeys();
  void MimoKeys();
  void StepKeys();
  void GemmaKeys();

  std::string architecture_;
  GgufMetadata& metadata_;
  bool latent_ = false, hybrid_ = false, gated_ = false, kda_ = false;
};

// Which architectures have latent attention, delta nets, gated residual streams, and Kimi delta
// attention.
bool IsLatent(const std::string& architecture);
bool IsHybrid(const std::string& architecture);
bool IsGated(const std::string& architecture);
bool HasKda(const std::string& architecture);

}  // namespace moepack::runtime::tiny
