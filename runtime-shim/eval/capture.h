// Captured gate mass: the share of the full model's gates that falls on experts that a node has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/text/expert_ids.h"
#include "runtime-shim/model/router.h"
#include "runtime-shim/profile/window_tokens.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// MoE layer -> router.
using LayerRouters = std::map<uint32_t, moepack::Routing>;

// For each MoE layer, in order, one share in [0, 1] per token. Attention sinks are excluded.
using LayerCapture = std::vector<std::vector<float>>;

// Returns the sum of the weights whose ids are eligible, divided by the sum of all; 0 if that is 0.
double CapturedShare(const Selection& chosen, const ExpertIds& eligible);

// Watches a session and measures the capture of one or more masks.
class CaptureObserver : public RoutingObserver {
 public:
  // Whose choice is measured. kApplied: the session is unmasked, and its gates are the teacher's
  // choice. kUnmasked (on-policy): the session is masked, and the full choice is computed from its
  // unmasked logits.
  enum class Teacher { kApplied, kUnmasked };

  // Borrows the masks and routers.
  CaptureObserver(Teacher teacher, std::vector<const LayerExperts*> masks,
                  const LayerRouters& routers, std::optional<uint32_t> bos);

  // Call StartWindow before each window and Feeding before each Session::Feed. Without the latter,
  // as during generation, nothing is measured.
  void StartWindow() { window_.Start(); }
  void Feeding(std::span<const uint32_t> tokens) { window_.Add(tokens); }
  void Rest(bool resting) { resting_ = resting; }

  void Observe(const RoutedBatch& batch) override;
  // Returns one capture per mask, for everything since the last call.
  std::vector<LayerCapture> Take();

 private:
  void ObserveToken(const RoutedBatch& batch, uint32_t token, size_t layer);

  Teacher teacher_;
  std::vector<const LayerExperts*> masks_;
  const LayerRouters& routers_;
  std::map<uint32_t, ExpertIds> all_;  // by layer
  WindowTokens window_;
  bool resting_ = false;
  std::vector<LayerCapture> captures_;
};

}  // namespace moepack::runtime
