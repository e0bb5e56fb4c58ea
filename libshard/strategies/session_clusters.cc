#include "libshard/strategies/session_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libshard/base/parallel.h"
#include "libshard/strategies/balanced_groups.h"
#include "libshard/strategies/split_mix.h"

namespace moepack {
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

}  // namespace moepack
