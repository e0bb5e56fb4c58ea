// The built moepack against servers that misbehave: each fault has an exit status and a message
// with the file and the next step, and leaves nothing that looks finished.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "fixtures/generator.h"
#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using cli::WriteAll;
using testing::HasSubstr;
using testing::Not;

bool IsOfWeights(const FakeRequest& request) { return request.path.ends_with(".safetensors"); }

// How it changes every reply for weights, and how moepack reacts.
struct Misbehaviour {
  const char* words;
  int status;
  FaultServer::Fault fault;
};

class HostileServers : public RemoteCommands {
 protected:
  // The fault starts after `good` replies for weights.
  void SetFaultAfter(int good, const FaultServer::Fault& fault) {
    auto count = std::make_shared<std::atomic<int>>(0);
    server_.SetFault([=](const FakeRequest& request, FakeAnswer& answer) {
      if (IsOfWeights(request) && ++*count > good) fault(request, answer);
    });
  }
  void ExpectRefused(const ToolRun& run, const Misbehaviour& expected) const {
    EXPECT_EQ(run.status, expected.status) << expected.words << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(expected.words));
    EXPECT_THAT(run.err, HasSubstr(server_.origin() + "/tiny-moe/model-0000"));
    EXPECT_THAT(run.err, HasSubstr("hint: ")) << expected.words;
  }
};

FakeAnswer Busy(int status) {
  FakeAnswer answer = Plain(status);
  answer.Set("Retry-After", "0");
  return answer;
}

const std::vector<Misbehaviour>& Misbehaviours() {
  static const std::vector<Misbehaviour> all = {
      {"the server ignores Range", 5,
       [](const auto&, FakeAnswer& answer) { answer = Plain(200, std::string(1 << 20, 'x')); }},
      {"Content-Encoding: expected none", 5,
       [](const auto&, FakeAnswer& answer) { answer.Set("Content-Encoding", "gzip"); }},
      {"Content-Range: expected", 3,
       [](const auto&, FakeAnswer& answer) {
         answer.Set("Content-Range", "bytes 5-131076/6000000");
       }},
      {"found a web page", 5,
       [](const auto&, FakeAnswer& answer) { answer.Set("Content-Type", "text/html"); }},
      {"redirects: expected at most 5", 5,
       [](const auto& request, FakeAnswer& answer) { answer = LeadTo(302, request.path); }},
      {"redirect: expected https, found http to example.org", 5,
       [](const auto&, FakeAnswer& answer) { answer = LeadTo(302, "http://example.org/"); }},
      {"found status 403", 5, [](const auto&, FakeAnswer& answer) { answer = Plain(403); }},
      {"status 416", 3, [](const auto&, FakeAnswer& answer) { answer = Plain(416); }},
      {"found status 503", 7, [](const auto&, FakeAnswer& answer) { answer = Busy(503); }},
      {"found status 429", 7, [](const auto&, FakeAnswer& answer) { answer = Busy(429); }},
      {"the server asks to wait 3600 s", 7,
       [](const auto&, FakeAnswer& answer) {
         answer = Plain(429);
         answer.Set("Retry-After", "3600");
       }},
      {"the server asks to wait 300 s", 7,
       [](const auto&, FakeAnswer& answer) {
         answer = Plain(429);
         answer.Set("RateLimit", "\"resolvers\";r=0;t=299");
       }},
      {"127.0.0.1: transfer closed with", 5,
       [](const auto&, FakeAnswer& answer) {
         answer.Set("Retry-After", "0");
         answer.cut_after = 7;
       }},
  };
  return all;
}

TEST_F(HostileServers, EveryMisbehaviourHasItsExitStatus) {
  for (const Misbehaviour& entry : Misbehaviours()) {
    SetFaultAfter(0, entry.fault);
    ExpectRefused(Moepack("list-tensors " + address()), entry);
  }
}

TEST_F(HostileServers, AServerThatIsAlwaysBusyIsTriedFiveTimes) {
  server_.SetFault([](const auto&, FakeAnswer& answer) { answer = Busy(503); });
  const ToolRun run = Moepack("list-tensors " + address());
  EXPECT_EQ(run.status, 7);
  EXPECT_THAT(run.err, HasSubstr("found status 503 (5 tries)"));
  EXPECT_LE(server_.requests().size(), 12u) << "eight requests at once may be on their way";
}

TEST_F(HostileServers, AWrongPatienceIsAnErrorOfUsage) {
  const ScopedVariable patience("MOEPACK_PATIENCE", "abc");
  const ToolRun run = Moepack("list-tensors " + address());
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("MOEPACK_PATIENCE: expected a number of seconds, found \"abc\""));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(HostileServers, LaterMisbehaviourNamesTheBytesAndPublishesNothing) {
  std::string out;
  for (const Misbehaviour& entry : Misbehaviours()) {
    out += "x";
    SetFaultAfter(20, entry.fault);
    const ToolRun run = Build(address(), out);
    ExpectRefused(run, entry);
    EXPECT_THAT(run.err, HasSubstr(".safetensors: bytes ")) << entry.words;
    EXPECT_FALSE(IsThere(out)) << entry.words;
  }
  // The last of them left something to resume.
  server_.SetFault({});
  const ToolRun again = Build(address(), out);
  EXPECT_EQ(again.status, 0) << again.err;
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  EXPECT_TRUE(Content(out) == Content("near"));
}

TEST_F(HostileServers, ATemporaryFaultDoesNotChangeTheResult) {
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  struct Asked {
    std::mutex mutex;
    std::set<std::string> ranges;
  };
  const auto asked = std::make_shared<Asked>();  // the server's threads may outlive the run
  // One for every range, by its end: an interrupted transfer resumes with a later start.
  server_.SetFault([asked](const FakeRequest& request, FakeAnswer& answer) {
    if (!IsOfWeights(request) || !request.Range()) return;
    const std::lock_guard lock(asked->mutex);
    if (!asked->ranges.insert(Cat(request.path, " ", request.Range()->second)).second) return;
    const size_t count = asked->ranges.size();
    if (count % 3 == 0) answer = Busy(429);
    if (count % 3 == 1) answer = Busy(503);
    if (count % 3 == 2) {
      answer.Set("Retry-After", "0");
      answer.cut_after = answer.body.size() / 2;
    }
  });
  const ToolRun run = Build(address(), "far");
  EXPECT_EQ(run.status, 0) << run.err;
  const std::lock_guard lock(asked->mutex);
  EXPECT_GT(asked->ranges.size(), 20u);
  EXPECT_TRUE(Content("far") == Content("near"));
}

TEST_F(HostileServers, ASourceThatChangesDuringTheReadPublishesNothing) {
  SetFaultAfter(20, [](const auto&, FakeAnswer& answer) { answer.Set("ETag", "\"other\""); });
  const ToolRun run = Build(address(), "far");
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("-of-00003.safetensors: the file was changed while it was "
                                 "read: expected ETag "));
  EXPECT_THAT(run.err, HasSubstr("found ETag \"other\""));
  EXPECT_THAT(run.err, HasSubstr("hint: "));
  EXPECT_FALSE(IsThere("far"));
  SetFaultAfter(20, [](const auto&, FakeAnswer& answer) {
    answer = Plain(416);
    answer.Set("Content-Range", "bytes */77");
  });
  const ToolRun shorter = Build(address(), "far");
  EXPECT_EQ(shorter.status, 3);
  EXPECT_THAT(shorter.err, HasSubstr("found 77 bytes"));
  EXPECT_FALSE(IsThere("far"));
}

TEST_F(HostileServers, ReadsWholeFilesFromAServerWithoutRangesIfAllowed) {
  const auto whole = [this](const FakeRequest& request, FakeAnswer& answer) {
    if (IsOfWeights(request)) {
      answer = Plain(200, ReadFile(workspace_ / kLocal / request.path.substr(10)));
      answer.Set("Content-Type", "application/octet-stream");
    }
  };
  server_.SetFault(whole);
  const ToolRun refused = Build(address(), "far");
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, HasSubstr("--allow-full-download, up to 1 GiB"));
  EXPECT_FALSE(IsThere("far"));
  server_.Forget();
  const ToolRun far = Build(address(), "far --allow-full-download");
  EXPECT_EQ(far.status, 0) << far.err;
  size_t requests = 0;
  for (const FakeRequest& request : server_.requests()) requests += IsOfWeights(request) ? 1 : 0;
  EXPECT_EQ(requests, 3u);  // each shard once
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  EXPECT_TRUE(Content("far") == Content("near"));
  const ToolRun proof = Moepack("verify far --allow-full-download --against " + address());
  EXPECT_EQ(proof.status, 0) << proof.err;
}

// A model of a few kilobytes, and another for the index.
fixtures::Options SmallModel(uint32_t shards) {
  fixtures::Options options;
  options.layers = 1;
  options.shards = shards;
  return options;
}

// The same tensors with a header of `length` bytes, padded with blanks as the format does.
std::string WithHeaderOf(const std::string& file, uint64_t length) {
  constexpr size_t kLength = 8;
  size_t header = 0;
  std::memcpy(&header, file.data(), kLength);
  std::string out(kLength, '\0');
  std::memcpy(out.data(), &length, kLength);
  out += file.substr(kLength, header);
  out.resize(kLength + length, ' ');
  return out + file.substr(kLength + header);
}

TEST_F(HostileServers, ReadsHeadersOfAboutTheSizeOfTheFirstRequest) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", workspace_ / "headers", SmallModel(1)));
  server_.AddDirectory("/headers/", workspace_ / "headers");
  const std::string model = ReadFile(workspace_ / "headers/model.safetensors");
  for (const auto& [first, last] : {std::pair{99990, 100010}, {131060, 131080}}) {
    for (int length = first; length <= last; ++length) {
      const std::string file = WithHeaderOf(model, static_cast<uint64_t>(length));
      WriteAll(workspace_ / "headers/model.safetensors", file);
      server_.Add("/headers/model.safetensors", file);
      const ToolRun near = Moepack("list-tensors headers");
      const ToolRun far = Moepack("list-tensors " + server_.origin() + "/headers/");
      ASSERT_EQ(near.status, 0) << near.err;
      EXPECT_EQ(far.status, 0) << length << ": " << far.err;
      EXPECT_EQ(far.out, near.out) << length;
    }
  }
}

TEST_F(HostileServers, AHeaderOf2To63BytesIsRefusedWithoutReadingIt) {
  server_.Add("/x.safetensors",
              std::string("\0\0\0\0\0\0\0\x80{}", 10) + std::string(1 << 20, ' '));
  server_.Forget();
  const ToolRun run = Moepack("list-tensors " + server_.origin() + "/x.safetensors");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr(server_.origin() + "/x.safetensors: "));
  EXPECT_THAT(run.err, HasSubstr("9223372036854775808"));
  EXPECT_LE(server_.bytes(), 1u << 18);
}

// A model in two shards; its index has another name for the first of them.
class HostileIndexes : public HostileServers {
 protected:
  void SetUp() override {
    HostileServers::SetUp();
    ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", near(), SmallModel(2)));
  }
  void SetIndex(const std::string& name) {
    const auto path = near() / "model.safetensors.index.json";
    auto index = nlohmann::json::parse(ReadFile(path));
    for (auto& file : index["weight_map"])
      if (file == named_) file = name;
    named_ = name;
    WriteAll(path, index.dump());
  }
  // Serves the model below a separate path and lists it there.
  ToolRun ListFar() {
    folder_ += "x";
    server_.AddDirectory(folder_ + "/", near());
    server_.Forget();
    return Moepack("list-tensors " + server_.origin() + folder_ + "/");
  }
  ToolRun ListNear() const { return Moepack("list-tensors indexed"); }
  std::filesystem::path near() const { return workspace_ / "indexed"; }

  std::string named_ = "model-00001-of-00002.safetensors", folder_ = "/";
};

TEST_F(HostileIndexes, AMissingFileIsNamed) {
  SetIndex("gone.safetensors");
  const ToolRun far = ListFar(), near = ListNear();
  EXPECT_EQ(far.status, near.status) << far.err << near.err;
  EXPECT_NE(far.status, 0);
  EXPECT_THAT(far.err, HasSubstr(server_.origin() + folder_));
  EXPECT_THAT(far.err, HasSubstr("gone.safetensors"));
}

TEST_F(HostileIndexes, AFileOutsideTheDirectoryIsRefusedAndNotRequested) {
  server_.Add("/x.safetensors", ReadFile(near() / named_));
  for (const char* outside : {"../x.safetensors", "/etc/x.safetensors", "a/../../x.safetensors",
                              "http://example.org/x.safetensors"}) {
    SetIndex(outside);
    const ToolRun far = ListFar(), near = ListNear();
    EXPECT_EQ(far.status, near.status) << outside << far.err << near.err;
    EXPECT_TRUE(far.status == 3 || far.status == 5) << outside << far.err;
    EXPECT_THAT(far.err, HasSubstr("x.safetensors"));
    for (const FakeRequest& request : server_.requests())
      EXPECT_NE(request.path, "/x.safetensors") << outside;
  }
}

TEST_F(HostileIndexes, NamesMayContainAnyCharacters) {
  for (const char* name : {"modèle ü 日本.safetensors", "100%25 a%20b.safetensors",
                           "a+b&c=d#e?f.safetensors", "%2e%2e.safetensors"}) {
    std::filesystem::rename(near() / named_, near() / name);
    SetIndex(name);
    const ToolRun far = ListFar(), near = ListNear();
    EXPECT_EQ(near.status, 0) << near.err;
    EXPECT_EQ(far.status, 0) << far.err;
    EXPECT_EQ(far.out, near.out) << name;
    const ToolRun build =
        Moepack("build " + server_.origin() + folder_ + "/ --groups 2 -o far" + folder_.substr(1));
    EXPECT_EQ(build.status, 0) << build.err;
  }
}

class HostileHubs : public HostileServers {
 protected:
  void SetUp() override {
    HostileServers::SetUp();
    hub_.AddDirectory(workspace_ / kLocal);
  }
  FakeHub hub_;
  ScopedVariable endpoint_{"HF_ENDPOINT", hub_.endpoint()}, token_{"HF_TOKEN", ""};
  const std::string source_ = "hf://owner/model";
};

TEST_F(HostileHubs, ExpiredAddressesAreRenewed) {
  hub_.LetSignaturesServe(20);
  const ToolRun far = Build(source_, "far");
  EXPECT_EQ(far.status, 0) << far.err;
  ASSERT_EQ(Build(kLocal, "near").status, 0);
  EXPECT_TRUE(Content("far") == Content("near"));
}

TEST_F(HostileHubs, PersistentlyRefusedAddressesEndTheRun) {
  hub_.LetSignaturesServe(0);
  const ToolRun run = Build(source_, "far");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr(Cat(source_, "@", hub_.commit, "/model-0000")));
  EXPECT_THAT(run.err, HasSubstr("found status 403: \"Request has expired\""));
  EXPECT_THAT(run.err, HasSubstr("hint: "));
  EXPECT_THAT(run.err, Not(HasSubstr("secret")));
  EXPECT_FALSE(IsThere("far"));
}

TEST_F(HostileHubs, AnAnswerWithoutACommitIsRefused) {
  hub_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.find("/revision/") != std::string::npos) answer = Plain(200, "{}");
  });
  const ToolRun run = Build(source_, "far");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("hf://owner/model: 127.0.0.1: expected the commit"));
  EXPECT_THAT(run.err, HasSubstr("hint: this is not a Hub"));
  EXPECT_FALSE(IsThere("far"));
}

TEST_F(HostileHubs, AMovedRevisionEndsTheRun) {
  const std::string other(40, 'a');
  const auto count = std::make_shared<std::atomic<int>>(0);  // the server outlives the test's body
  hub_.LetSignaturesServe(20);
  hub_.SetFault([other, count](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.ends_with(".safetensors") && ++*count > 4) answer.Set("X-Repo-Commit", other);
  });
  const ToolRun run = Build(source_, "far");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr(Cat("X-Repo-Commit: expected ", hub_.commit, ", found ", other)));
  EXPECT_THAT(run.err, HasSubstr("hint: "));
  EXPECT_FALSE(IsThere("far"));
}

}  // namespace
}  // namespace moepack::remote
