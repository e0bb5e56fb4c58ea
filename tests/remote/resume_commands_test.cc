// A run over a network that is killed again and again: it ends with the same bytes, and does not
// refetch anything that it had finished.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/journal.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fault_server.h"
#include "tests/tools/child_process.h"
#include "tests/tools/run_moepack.h"

namespace moepack::remote {
namespace {

using cli::ChildEnd;
using cli::ChildProcess;
using cli::ReadFile;
using cli::Workspace;

struct Place {
  std::string file;
  uint64_t first = 0, last = 0;
};

class KilledRuns : public testing::Test {
 protected:
  KilledRuns() {
    server_.AddDirectory("/m/", workspace_ / "fixtures/tiny-moe");
    server_.SetListing(true);
    server_.SetDelay(std::chrono::milliseconds(1));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(workspace_.Moepack(Line(server_.origin() + "/m/", "whole")).status, 0);
    whole_ = Since(start);
    const auto manifest = nlohmann::json::parse(ReadFile(workspace_ / "whole/distribution.json"));
    for (const auto& bundle : manifest["bundles"]) {
      outputs_.emplace_back();
      for (const auto& tensor : bundle["tensors"]) outputs_.back().push_back(tensor["name"]);
    }
    const auto listed = workspace_.Json("list-tensors fixtures/tiny-moe --json");
    for (const auto& tensor : listed["tensors"]) {
      const uint64_t first = tensor["offset"], bytes = tensor["bytes"];
      places_[tensor["name"]] = {tensor["file"], first, first + bytes - 1};
    }
  }
  static std::chrono::microseconds Since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  }
  static std::vector<std::string> Words(const std::string& source, const std::string& out) {
    return {"shard-experts", source,          "--groups", "3", "--memory", "4M",
            "--only",        "trunk,group:1", "-o",       out};
  }
  static std::string Line(const std::string& source, const std::string& out) {
    std::string line;
    for (const std::string& word : Words(source, out)) line += word + " ";
    return line;
  }
  // The source ranges of the tensors that the journal of a killed run lists.
  std::vector<Place> Finished() const {
    std::vector<Place> finished;
    const auto partial = workspace_ / "out.partial";
    if (!std::filesystem::exists(partial / ".journal")) return finished;
    const auto directory = InsideDirectory::Open(partial);
    const auto journal = Journal::Open(*directory, ".journal");
    if (!journal) return finished;
    for (size_t output = 0; output < journal->finished().size(); ++output) {
      for (size_t i = 0; i < journal->finished()[output].size(); ++i)
        finished.push_back(places_.at(outputs_.at(output).at(i)));
    }
    return finished;
  }
  // Requests for weights that were already finished. The starts of files, which hold the headers,
  // and the pages that the model version depends on are left out.
  void ExpectNoneOf(const std::vector<Place>& finished) const {
    for (const FakeRequest& request : server_.requests()) {
      const auto range = request.Range();
      if (!range || range->first == 0 || range->second - range->first < 4096) continue;
      for (const Place& place : finished) {
        if (!request.path.ends_with(place.file)) continue;
        EXPECT_FALSE(range->first <= place.last && place.first <= range->second)
            << request.path << " " << range->first << "-" << range->second
            << " was fetched again: " << place.first << "-" << place.last;
      }
    }
  }

  Workspace workspace_;
  FaultServer server_;
  std::vector<std::vector<std::string>> outputs_;  // names of tensors
  std::map<std::string, Place> places_;            // by tensor
  std::chrono::microseconds whole_{};              // duration of a run
};

TEST_F(KilledRuns, AHundredKillsLoseNoFinishedTensorAndChangeNoByte) {
  std::mt19937 random(14);
  int kills = 0;
  size_t resumed = 0;  // tensors that a later run found
  for (bool ended = false; kills < 100 || !ended;) {
    const std::vector<Place> finished = Finished();
    resumed += finished.size();
    server_.Forget();
    ChildProcess child(workspace_.path(), Words(server_.origin() + "/m/", "out"));
    if (kills < 100) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(random() % static_cast<unsigned>(whole_.count())));
      child.Kill(SIGKILL);
    }
    const ChildEnd end = child.Wait();
    ExpectNoneOf(finished);
    if (end.signal != 0) {
      ++kills;
    } else {
      ASSERT_EQ(end.status, 0) << end.err;
      EXPECT_FALSE(std::filesystem::exists(workspace_ / "out.partial"));
    }
    ended = std::filesystem::exists(workspace_ / "out");  // it may be killed after that
    if (!ended) continue;
    EXPECT_EQ(ReadFile(workspace_ / "out/distribution.json"),
              ReadFile(workspace_ / "whole/distribution.json"));
    EXPECT_EQ(workspace_.Moepack("verify out --against fixtures/tiny-moe").status, 0);
    std::filesystem::remove_all(workspace_ / "out");
    std::filesystem::remove_all(workspace_ / "out.partial");  // left by a kill after the rename
  }
  EXPECT_GT(resumed, 100u);
}

}  // namespace
}  // namespace moepack::remote
