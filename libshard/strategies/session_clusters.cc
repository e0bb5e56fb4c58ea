#include "libshard/strategies/session_clusters.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/strategies/split_mix.h"

namespace moepack {
namespace {

using Eigen::Index;

// How many experts of the model one product covers, so that their doubles stay few.
constexpr Index kStretch = 1024;

// One row for each session.
using Rows = Eigen::Matrix<int16_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Result<std::vector<double>> MeanRoots(const SessionShares& shares) {
  std::vector<double> mean(shares.width());
  const auto of_layer = [&](size_t layer) -> Status {
    double* const sum = mean.data() + shares.offset(layer);
    size_t seen = 0;
    for (size_t session = 0; session < shares.session_count(); ++session) {
      const std::span<const float> scores = shares.Scores(session, layer);
      const double per_score = shares.PerScore(session, layer);
      seen += per_score > 0;
      // Square roots of shares make the product the Bhattacharyya coefficient of two distributions:
      // a few dominant experts no longer decide it alone.
      for (size_t id = 0; id < scores.size(); ++id) sum[id] += std::sqrt(scores[id] * per_score);
    }
    for (size_t id = 0; id < shares.expert_count(layer); ++id)
      sum[id] /= static_cast<double>(std::max<size_t>(seen, 1));
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.layer_count(), 0, of_layer));
  return mean;
}

// A layer that the session never reached says nothing about it and stays 0.
void WriteRow(const SessionShares& shares, const std::vector<double>& mean, size_t session,
              int16_t* row) {
  std::vector<double> centred(shares.width());
  double squares = 0;
  for (size_t layer = 0; layer < shares.layer_count(); ++layer) {
    const double per_score = shares.PerScore(session, layer);
    if (per_score == 0) continue;
    const std::span<const float> scores = shares.Scores(session, layer);
    const size_t offset = shares.offset(layer);
    for (size_t id = 0; id < scores.size(); ++id) {
      // What all sessions have in common would make every pair look alike.
      const double value = std::sqrt(scores[id] * per_score) - mean[offset + id];
      centred[offset + id] = value;
      squares += value * value;
    }
  }
  if (squares < 1e-12) return;  // only rounding is left of a session that equals the mean
  const double scale = kGramUnit / std::sqrt(squares);
  for (size_t i = 0; i < centred.size(); ++i) {
    const double value = centred[i] * scale;
    // Half away from zero without a library call, whose rounding mode could differ.
    row[i] = static_cast<int16_t>(value + (value < 0 ? -0.5 : 0.5));
  }
}

Result<Rows> RowsOf(const SessionShares& shares) {
  SHARD_TRY(const std::vector<double> mean, MeanRoots(shares));
  Rows rows = Rows::Zero(Index(shares.session_count()), Index(shares.width()));
  const auto write = [&](size_t session) -> Status {
    WriteRow(shares, mean, session, rows.row(Index(session)).data());
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(shares.session_count(), 0, write));
  return rows;
}

}  // namespace

Result<SessionGram> SessionGram::Of(const SessionShares& shares) {
  SHARD_TRY(const Rows rows, RowsOf(shares));
  // Doubles hold the sums exactly: 2^18 products (limits.h) of int16 are below 2^53.
  Eigen::MatrixXd sums = Eigen::MatrixXd::Zero(rows.rows(), rows.rows());
  for (Index start = 0; start < rows.cols(); start += kStretch) {
    const Index width = std::min(kStretch, rows.cols() - start);
    const Eigen::MatrixXd part = rows.middleCols(start, width).cast<double>();
    sums.selfadjointView<Eigen::Lower>().rankUpdate(part);
    SHARD_CHECK(CheckInterrupt());
  }
  SessionGram gram;
  gram.size_ = shares.session_count();
  gram.products_.resize(gram.size_ * gram.size_);
  Eigen::Map<Eigen::Matrix<int32_t, Eigen::Dynamic, Eigen::Dynamic>>(gram.products_.data(),
                                                                     rows.rows(), rows.rows()) =
      sums.selfadjointView<Eigen::Lower>().toDenseMatrix().cast<int32_t>();
  return gram;
}

namespace {

// Lloyd's rounds end when nothing moves; the limit on sizes can make them go in circles.
constexpr size_t kMostRounds = 40;

struct Clustering {
  double cohesion = 0;  // the sum over sessions of the cosine to their cluster's centre
  std::vector<uint32_t> cluster;
};

// One k-means run. Centres are sums of session vectors, so products with them are sums over the
// matrix, which are exact.
class KMeans {
 public:
  KMeans(const SessionGram& gram, size_t groups) : gram_(gram), groups_(groups) {}

  Clustering Run(SplitMix64& random) const {
    Clustering found;
    found.cluster = Assign(CosinesToSeeds(Seeds(random)));
    for (size_t round = 0; round < kMostRounds; ++round) {
      const std::vector<double> cosines = CosinesToCentres(found.cluster);
      std::vector<uint32_t> next = Assign(cosines);
      if (next == found.cluster) break;
      found.cluster = std::move(next);
    }
    const std::vector<double> cosines = CosinesToCentres(found.cluster);
    for (size_t session = 0; session < gram_.size(); ++session)
      found.cohesion += cosines[session * groups_ + found.cluster[session]];
    NumberByFirst(found.cluster);
    return found;
  }

 private:
  // k-means++: the farther a session is from all seeds so far, the likelier it is the next.
  std::vector<size_t> Seeds(SplitMix64& random) const {
    std::vector<size_t> seeds = {random.Below(gram_.size())};
    std::vector<uint64_t> distance(gram_.size(), std::numeric_limits<uint64_t>::max());
    while (seeds.size() < groups_) {
      uint64_t total = 0;
      for (size_t session = 0; session < gram_.size(); ++session) {
        distance[session] = std::min(distance[session], SquaredDistance(session, seeds.back()));
        total += distance[session];
      }
      seeds.push_back(total == 0 ? random.Below(gram_.size()) : Draw(distance, total, random));
    }
    return seeds;
  }

  uint64_t SquaredDistance(size_t a, size_t b) const {
    // |a - b|^2 = |a|^2 + |b|^2 - 2ab, so the matrix of products is all that is needed.
    const int64_t squared =
        int64_t{gram_.At(a, a)} + int64_t{gram_.At(b, b)} - 2 * int64_t{gram_.At(a, b)};
    return static_cast<uint64_t>(std::max<int64_t>(squared, 0));
  }

  static size_t Draw(const std::vector<uint64_t>& weights, uint64_t total, SplitMix64& random) {
    uint64_t left = random.Below(total);
    size_t drawn = 0;
    while (left >= weights[drawn]) left -= weights[drawn++];
    return drawn;
  }

  std::vector<double> CosinesToSeeds(const std::vector<size_t>& seeds) const {
    std::vector<double> cosines;
    for (size_t session = 0; session < gram_.size(); ++session) {
      // All vectors have the same length, so products order the seeds as cosines do.
      for (const size_t seed : seeds) cosines.push_back(gram_.At(session, seed));
    }
    return cosines;
  }

  std::vector<double> CosinesToCentres(const std::vector<uint32_t>& cluster) const {
    std::vector<int64_t> products(gram_.size() * groups_), squares(groups_);
    for (size_t session = 0; session < gram_.size(); ++session) {
      int64_t* const row = products.data() + session * groups_;
      for (size_t other = 0; other < gram_.size(); ++other)
        row[cluster[other]] += gram_.At(session, other);
      squares[cluster[session]] += row[cluster[session]];
    }
    std::vector<double> cosines(products.size());
    for (size_t i = 0; i < cosines.size(); ++i) {
      const int64_t square = squares[i % groups_];
      cosines[i] = square > 0
                       ? static_cast<double>(products[i]) / std::sqrt(static_cast<double>(square))
                       : 0;
    }
    return cosines;
  }

  std::vector<uint32_t> Assign(const std::vector<double>& cosines) const {
    // A cluster is a node's load, so none may have far more sessions than the others.
    return BalancedGroups(cosines, groups_, MostSessions(gram_.size(), groups_));
  }

  void NumberByFirst(std::vector<uint32_t>& cluster) const {
    constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> number(groups_, kNone);
    uint32_t next = 0;
    for (uint32_t& own : cluster) {
      if (number[own] == kNone) number[own] = next++;
      own = number[own];
    }
  }

  const SessionGram& gram_;
  size_t groups_;
};

}  // namespace

Result<std::vector<std::vector<uint32_t>>> ClusterSessions(const SessionGram& gram, size_t groups,
                                                           size_t restarts, uint64_t seed) {
  SplitMix64 seeds(seed);
  std::vector<uint64_t> seed_of(restarts);
  // Every run gets its seed before the threads start, so their order does not matter.
  for (uint64_t& one : seed_of) one = seeds.Next();
  std::vector<Clustering> found(restarts);
  const KMeans k_means(gram, groups);
  const auto run = [&](size_t restart) -> Status {
    SplitMix64 random(seed_of[restart]);
    found[restart] = k_means.Run(random);
    return CheckInterrupt();
  };
  SHARD_CHECK(ParallelFor(restarts, 0, run));
  std::stable_sort(found.begin(), found.end(), [](const Clustering& a, const Clustering& b) {
    return a.cohesion > b.cohesion;
  });
  std::vector<std::vector<uint32_t>> different;
  for (Clustering& one : found) {
    // Equal clusterings lead to equal sets, so each is tried once.
    if (std::find(different.begin(), different.end(), one.cluster) == different.end())
      different.push_back(std::move(one.cluster));
  }
  return different;
}

namespace {

// A sweep compares all pairs of sessions, or of groups; the bound ends those for gains that hardly
// count.
constexpr size_t kMostSweeps = 8;

class Assignment {
 public:
  Assignment(const std::vector<double>& values, size_t groups, size_t most)
      : values_(values),
        groups_(groups),
        most_(most),
        group_(values.size() / groups),
        sizes_(groups) {}

  void Choose() {
    std::vector<size_t> order(group_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<double> lead(group_.size());
    for (size_t session = 0; session < lead.size(); ++session) lead[session] = LeadOf(session);
    // Who loses most by the next best group chooses while its best one still has room.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return lead[a] > lead[b]; });
    for (const size_t session : order) Put(session, BestWithRoom(session));
  }

  // An empty group gets the session that loses the least by the move.
  void FillEmpty() {
    for (uint32_t group = 0; group < groups_; ++group) {
      if (sizes_[group] > 0) continue;
      size_t moved = group_.size();
      double least = std::numeric_limits<double>::infinity();
      for (size_t session = 0; session < group_.size(); ++session) {
        const double loss = Value(session, group_[session]) - Value(session, group);
        if (sizes_[group_[session]] < 2 || loss >= least) continue;
        least = loss;
        moved = session;
      }
      --sizes_[group_[moved]];
      Put(moved, group);
    }
  }

  void Improve() {
    bool full = false;
    for (const size_t size : sizes_) full = full || size >= most_;
    if (!full) return;  // every session has the group that suits it best
    const bool compare = group_.size() <= kMostComparedSessions;
    for (size_t sweep = 0; sweep < kMostSweeps && (compare ? Sweep() : SweepByGroups()); ++sweep) {
    }
  }

  std::vector<uint32_t> Take() && { return std::move(group_); }

 private:
  double Value(size_t session, size_t group) const { return values_[session * groups_ + group]; }

  // How much better the best group is than the next best.
  double LeadOf(size_t session) const {
    double best = -std::numeric_limits<double>::infinity(), next = best;
    for (size_t group = 0; group < groups_; ++group) {
      const double value = Value(session, group);
      next = std::max(next, std::min(best, value));
      best = std::max(best, value);
    }
    return groups_ > 1 ? best - next : 0;
  }

  uint32_t BestWithRoom(size_t session) const {
    uint32_t best = 0;
    double value = -std::numeric_limits<double>::infinity();
    for (uint32_t group = 0; group < groups_; ++group) {
      if (sizes_[group] >= most_ || Value(session, group) <= value) continue;
      value = Value(session, group);
      best = group;
    }
    return best;
  }

  void Put(size_t session, uint32_t group) {
    group_[session] = group;
    ++sizes_[group];
  }

  // To groups that have room and suit the session better.
  bool Move(size_t session) {
    bool changed = false;
    for (uint32_t group = 0; group < groups_; ++group) {
      // A move must not empty the group it leaves.
      if (sizes_[group] >= most_ || sizes_[group_[session]] < 2) continue;
      if (Value(session, group) <= Value(session, group_[session])) continue;
      --sizes_[group_[session]];
      Put(session, group);
      changed = true;
    }
    return changed;
  }

  bool Sweep() {
    bool changed = false;
    for (size_t a = 0; a < group_.size(); ++a) {
      changed |= Move(a);
      for (size_t b = 0; b < a; ++b) {
        const uint32_t of_a = group_[a], of_b = group_[b];
        if (of_a == of_b) continue;
        if (Value(a, of_b) + Value(b, of_a) <= Value(a, of_a) + Value(b, of_b)) continue;
        std::swap(group_[a], group_[b]);
        changed = true;
      }
    }
    return changed;
  }

  bool SweepByGroups() {
    bool changed = false;
    for (size_t session = 0; session < group_.size(); ++session) changed |= Move(session);
    for (uint32_t a = 0; a < groups_; ++a) {
      for (uint32_t b = 0; b < a; ++b) changed |= Exchange(a, b);
    }
    return changed;
  }

  // What each session of a group gains in another, which may be negative; the largest first.
  std::vector<std::pair<double, size_t>> Gains(uint32_t from, uint32_t to) const {
    std::vector<std::pair<double, size_t>> gains;
    for (size_t session = 0; session < group_.size(); ++session) {
      if (group_[session] == from)
        gains.emplace_back(Value(session, to) - Value(session, from), session);
    }
    std::sort(gains.begin(), gains.end(), [](const auto& one, const auto& other) {
      return one.first > other.first || (one.first == other.first && one.second < other.second);
    });
    return gains;
  }

  // Swaps the sessions that gain most for each other: no other pairs of the two groups gain more.
  bool Exchange(uint32_t a, uint32_t b) {
    const auto of_a = Gains(a, b), of_b = Gains(b, a);
    size_t swapped = 0;
    while (swapped < std::min(of_a.size(), of_b.size()) &&
           of_a[swapped].first + of_b[swapped].first > 0) {
      group_[of_a[swapped].second] = b;
      group_[of_b[swapped].second] = a;
      ++swapped;
    }
    return swapped > 0;
  }

  const std::vector<double>& values_;
  size_t groups_, most_;
  std::vector<uint32_t> group_;
  std::vector<size_t> sizes_;
};

}  // namespace

size_t MostSessions(size_t sessions, size_t groups) {
  // 1.5 times the average size, rounded up in whole numbers.
  return (3 * sessions + 2 * groups - 1) / (2 * groups);
}

std::vector<uint32_t> BalancedGroups(const std::vector<double>& values, size_t groups,
                                     size_t most) {
  Assignment assignment(values, groups, most);
  assignment.Choose();
  assignment.FillEmpty();
  assignment.Improve();
  return std::move(assignment).Take();
}

}  // namespace moepack
