#include "libshard/strategies/balanced_cut.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

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
    // Fisher-Yates, as the draws of std::shuffle differ between standard libraries.
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.Below(i + 1)]);
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

}  // namespace moepack
