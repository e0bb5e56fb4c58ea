// The orders in which policies would keep the experts of a layer. A cache of n slots holds the
// first n of the order, so one pass answers for every n.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moepack {

// Lookups come before, Use after each request.
class CacheOrder {
 public:
  virtual ~CacheOrder() = default;
  // The position of `id`, from 0; no value if it was never used and so is in no cache.
  virtual std::optional<uint32_t> PlaceOf(uint16_t id) const = 0;
  // The ids of a request, the last used at the end.
  virtual void Use(std::span<const uint16_t> ids) = 0;
};

// By last use.
class RecencyOrder final : public CacheOrder {
 public:
  explicit RecencyOrder(uint32_t expert_count) : places_(expert_count, kNowhere) {}
  std::optional<uint32_t> PlaceOf(uint16_t id) const override;
  void Use(std::span<const uint16_t> ids) override;

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;
  std::vector<uint16_t> order_;
  std::vector<uint32_t> places_;  // by id
};

// By number of uses; among equals by last use, and within one request by lower id.
class FrequencyOrder final : public CacheOrder {
 public:
  explicit FrequencyOrder(uint32_t expert_count) : uses_(expert_count) {}
  std::optional<uint32_t> PlaceOf(uint16_t id) const override;
  void Use(std::span<const uint16_t> ids) override;

 private:
  struct Uses {
    uint64_t count = 0, last = 0;  // the request of the last use
    uint32_t place = 0;
  };
  bool Before(uint16_t a, uint16_t b) const;

  std::vector<uint16_t> order_;
  std::vector<Uses> uses_;  // by id
  uint64_t requests_ = 0;
};

// As given, regardless of use.
class FixedOrder final : public CacheOrder {
 public:
  // `best_first` has every id once.
  explicit FixedOrder(const std::vector<uint32_t>& best_first);
  std::optional<uint32_t> PlaceOf(uint16_t id) const override;
  void Use(std::span<const uint16_t> ids) override;

 private:
  std::vector<uint32_t> places_;  // by id
  std::vector<bool> used_;        // by id
};

}  // namespace moepack
