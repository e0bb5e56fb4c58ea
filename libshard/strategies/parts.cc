#include "libshard/strategies/parts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"

namespace moepack {
namespace {

constexpr uint32_t kNoPart = std::numeric_limits<uint32_t>::max();
// Every swap moves weight inside, so the sweeps end by themselves; the bound is for the worst case.
constexpr size_t kMostTrades = 64;  // sweeps over all pairs

class Cut {
 public:
  Cut(const PairWeights& weights, const std::vector<size_t>& sizes)
      : weights_(weights),
        sizes_(sizes),
        part_(weights.size(), kNoPart),
        to_part_(weights.size() * sizes.size()) {}

  // Starts every part at a node far from the parts so far, since parts that start in one cluster
  // would divide it between them.
  void Grow(SplitMix64& random) {
    std::vector<size_t> left = sizes_;
    for (uint32_t part = 0; part < sizes_.size(); ++part) {
      if (left[part] == 0) continue;
      Put(part == 0 ? random.Below(part_.size()) : MostDistant(random), part);
      --left[part];
    }
    for (;;) {
      const auto [node, part] = Closest(left);
      if (part == kNoPart) return;
      Put(node, part);
      --left[part];
    }
  }

  void Deal(SplitMix64& random) {
    std::vector<size_t> order(part_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    random.Shuffle(std::span(order));
    auto next = order.begin();
    for (uint32_t part = 0; part < sizes_.size(); ++part) {
      for (size_t i = 0; i < sizes_[part]; ++i) Put(*next++, part);
    }
  }

  void Trade() {
    bool traded = true;
    for (size_t sweep = 0; traded && sweep < kMostTrades; ++sweep) {
      traded = false;
      for (size_t node = 0; node < part_.size(); ++node) traded = TradeOne(node) || traded;
    }
  }

  // Parts of equal size swap numbers, so that the one with the lowest node comes first.
  // Equal cuts of different starts must give the same plan, whatever part a start numbered first.
  void Number() {
    std::vector<size_t> lowest(sizes_.size(), part_.size());
    for (size_t node = part_.size(); node-- > 0;) lowest[part_[node]] = node;
    std::map<size_t, std::vector<uint32_t>> by_size;
    for (uint32_t part = 0; part < sizes_.size(); ++part) by_size[sizes_[part]].push_back(part);
    std::vector<uint32_t> number(sizes_.size());
    for (const auto& [size, numbers] : by_size) {
      std::vector<uint32_t> order = numbers;
      std::sort(order.begin(), order.end(),
                [&](uint32_t a, uint32_t b) { return lowest[a] < lowest[b]; });
      for (size_t i = 0; i < order.size(); ++i) number[order[i]] = numbers[i];
    }
    for (uint32_t& part : part_) part = number[part];
  }

  const std::vector<uint32_t>& part() const { return part_; }

 private:
  int64_t& ToPart(size_t node, size_t part) { return to_part_[node * sizes_.size() + part]; }

  void Add(size_t node, size_t part, int64_t sign) {
    for (size_t other = 0; other < part_.size(); ++other)
      ToPart(other, part) += sign * weights_.At(node, other);
  }

  void Put(size_t node, uint32_t part) {
    part_[node] = part;
    Add(node, part, 1);
  }

  // The free node with the least weight to all parts so far; ties are drawn at random.
  size_t MostDistant(SplitMix64& random) {
    std::vector<size_t> found;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t node = 0; node < part_.size(); ++node) {
      if (part_[node] != kNoPart) continue;
      int64_t sum = 0;
      for (size_t part = 0; part < sizes_.size(); ++part) sum += ToPart(node, part);
      if (sum < least) found.clear();
      least = std::min(least, sum);
      if (sum == least) found.push_back(node);
    }
    return found[random.Below(found.size())];
  }

  // The free node and the part with room that have the most weight between them.
  std::pair<size_t, uint32_t> Closest(const std::vector<size_t>& left) {
    std::pair<size_t, uint32_t> closest{0, kNoPart};
    int64_t most = -1;
    for (size_t node = 0; node < part_.size(); ++node) {
      if (part_[node] != kNoPart) continue;
      for (uint32_t part = 0; part < left.size(); ++part) {
        if (left[part] == 0 || ToPart(node, part) <= most) continue;
        most = ToPart(node, part);
        closest = {node, part};
      }
    }
    return closest;
  }

  // Swaps `node` with the node that gains most.
  bool TradeOne(size_t node) {
    size_t with = node;
    int64_t most = 0;
    const size_t own = part_[node];
    for (size_t other = 0; other < part_.size(); ++other) {
      const size_t theirs = part_[other];
      if (theirs == own) continue;
      // Both sums to the other's part count the weight between the two nodes, which stays between
      // the parts after the swap: hence minus twice that weight.
      const int64_t gain = ToPart(node, theirs) - ToPart(node, own) + ToPart(other, own) -
                           ToPart(other, theirs) - 2 * weights_.At(node, other);
      if (gain <= most) continue;
      most = gain;
      with = other;
    }
    if (with == node) return false;
    const uint32_t theirs = part_[with];
    Add(node, own, -1);
    Add(with, theirs, -1);
    Put(with, part_[node]);
    Put(node, theirs);
    return true;
  }

  const PairWeights& weights_;
  const std::vector<size_t>& sizes_;
  std::vector<uint32_t> part_;
  std::vector<int64_t> to_part_;  // by node, then part
};

}  // namespace

int64_t WeightInside(const PairWeights& weights, const std::vector<uint32_t>& part) {
  int64_t inside = 0;
  for (size_t a = 0; a < part.size(); ++a) {
    for (size_t b = 0; b < a; ++b) inside += part[a] == part[b] ? weights.At(a, b) : 0;
  }
  return inside;
}

std::vector<uint32_t> CutBalanced(const PairWeights& weights, const std::vector<size_t>& sizes,
                                  size_t restarts, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint32_t> best;
  int64_t most = -1;
  for (size_t restart = 0; restart < restarts && weights.size() > 0; ++restart) {
    Cut cut(weights, sizes);
    // Swaps only reach the optimum nearest to the start, so two kinds of start alternate.
    restart % 2 == 0 ? cut.Grow(random) : cut.Deal(random);
    cut.Trade();
    cut.Number();
    const int64_t inside = WeightInside(weights, cut.part());
    if (inside <= most) continue;
    most = inside;
    best = cut.part();
  }
  return best;
}

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
