#include "libshard/strategies/match_parts.h"

#include <algorithm>

#include "libshard/base/parallel.h"

namespace moepack {
namespace {

constexpr size_t kMostMatchings = 10;

// used[session * groups + group]
using Used = std::vector<double>;

class Matching {
 public:
  Matching(const SessionShares& shares, std::vector<std::vector<ExpertIds>>& parts)
      : shares_(shares), parts_(parts), groups_(parts[0].size()) {}

  Status Run() {
    SHARD_CHECK(LayerByLayer());
    for (size_t round = 0; round < kMostMatchings; ++round) {
      if (!MatchToBestGroups()) return Ok();
      SHARD_CHECK(CheckInterrupt());
    }
    return Ok();
  }

 private:
  Status LayerByLayer() {
    Used before(shares_.session_count() * groups_);
    for (size_t layer = 0; layer < parts_.size(); ++layer) {
      // The first layer names the groups; each later one joins the names that its sessions already
      // have.
      if (layer > 0) MatchLayer(layer, Centred(before, layer));
      const Used here = UsedIn(layer);
      std::transform(before.begin(), before.end(), here.begin(), before.begin(), std::plus<>());
      SHARD_CHECK(CheckInterrupt());
    }
    return Ok();
  }

  // A session pulls by how much more it uses of a group than of the average group.
  Used Centred(const Used& used, size_t layers) const {
    Used centred(used.size());
    for (size_t i = 0; i < used.size(); ++i)
      // Where the parts cover a layer, its shares add up to 1, so layers / groups is the average
      // use.
      centred[i] = used[i] - static_cast<double>(layers) / static_cast<double>(groups_);
    return centred;
  }

  // False if no part was swapped.
  bool MatchToBestGroups() {
    Used sum(shares_.session_count() * groups_);
    for (size_t layer = 0; layer < parts_.size(); ++layer) {
      const Used here = UsedIn(layer);
      std::transform(sum.begin(), sum.end(), here.begin(), sum.begin(), std::plus<>());
    }
    Used chosen(sum.size());
    for (size_t session = 0; session < shares_.session_count(); ++session) {
      const auto row = sum.begin() + static_cast<std::ptrdiff_t>(session * groups_);
      const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(groups_));
      chosen[static_cast<size_t>(best - sum.begin())] = 1;
    }
    bool changed = false;
    for (size_t layer = 0; layer < parts_.size(); ++layer)
      changed = MatchLayer(layer, chosen) || changed;
    return changed;
  }

  // Pulls the layer's parts to the groups whose sessions use them; `pull` is the weight of every
  // session and group.
  bool MatchLayer(size_t layer, const Used& pull) {
    const Used used = UsedIn(layer);
    std::vector<double> value(groups_ * groups_);  // by part, then group
    for (size_t session = 0; session < shares_.session_count(); ++session) {
      for (size_t part = 0; part < groups_; ++part) {
        const double share = used[session * groups_ + part];
        for (size_t group = 0; group < groups_; ++group)
          value[part * groups_ + group] += share * pull[session * groups_ + group];
      }
    }
    return TradePlaces(value, parts_[layer]);
  }

  bool TradePlaces(const std::vector<double>& value, std::vector<ExpertIds>& parts) const {
    std::vector<size_t> part_of(groups_);
    for (size_t group = 0; group < groups_; ++group) part_of[group] = group;
    bool traded = true, changed = false;
    for (size_t sweep = 0; traded && sweep < groups_ + 1; ++sweep) {
      traded = false;
      for (size_t a = 0; a < groups_; ++a) {
        for (size_t b = 0; b < a; ++b) {
          // A part of another size would not fit the room of the group.
          if (parts[a].size() != parts[b].size()) continue;
          const double now = value[part_of[a] * groups_ + a] + value[part_of[b] * groups_ + b];
          const double then = value[part_of[b] * groups_ + a] + value[part_of[a] * groups_ + b];
          // Without the margin, rounding errors could swap the same two parts back and forth.
          if (then <= now + 1e-9) continue;
          std::swap(part_of[a], part_of[b]);
          std::swap(parts[a], parts[b]);
          traded = changed = true;
        }
      }
    }
    return changed;
  }

  Used UsedIn(size_t layer) const {
    Used used(shares_.session_count() * groups_);
    for (size_t session = 0; session < shares_.session_count(); ++session) {
      const std::span<const float> scores = shares_.Scores(session, layer);
      for (size_t part = 0; part < groups_; ++part) {
        double sum = 0;
        for (const uint32_t id : parts_[layer][part]) sum += scores[id];
        used[session * groups_ + part] = sum * shares_.PerScore(session, layer);
      }
    }
    return used;
  }

  const SessionShares& shares_;
  std::vector<std::vector<ExpertIds>>& parts_;
  size_t groups_;
};

}  // namespace

Status MatchParts(const SessionShares& shares, std::vector<std::vector<ExpertIds>>& parts) {
  if (parts.empty() || parts[0].size() < 2 || shares.session_count() < parts[0].size()) return Ok();
  return Matching(shares, parts).Run();
}

}  // namespace moepack
