// The findings of verify for a distribution whose groups were refitted.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "manifest/document/diff.h"
#include "tests/manifest/document/refitted_tiny.h"
#include "tests/manifest/find_bundle.h"
#include "tests/manifest/verify/forger.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kGroup0 = "groups/000/experts.safetensors";

// Written once, as safetensors and as GGUF, together with the same without a refit.
class RefittedTiny : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<fixtures::TempDir>();
    ASSERT_TRUE(tiny::Write(*directory_ / "plain"));
    for (const char* gguf : {"", "Q4_K_M"}) {
      const auto written = tiny::WriteRefitted(*directory_ / (*gguf == '\0' ? "refit" : "q4"),
                                               tiny::Changed(), gguf);
      ASSERT_TRUE(written) << written.error().message;
    }
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::string Dir(const std::string& name) { return (*directory_ / name).string(); }
  static Manifest Read(const std::string& name) { return *ReadManifest(Dir(name)); }

  static VerifyReport Against(const std::string& directory, const std::string& store = "") {
    VerifyOptions options;
    options.against = tiny::kSource.string();
    options.refit_store = store;
    return Verify(directory, options);
  }
  static std::string StoreOf(const std::string& name) {
    return tiny::StoreOf(*directory_ / name).string();
  }

  // A copy of the safetensors distribution with another manifest.
  static std::string With(const std::string& name, const std::function<void(Json&)>& change) {
    fs::copy(Dir("refit"), Dir(name), fs::copy_options::recursive);
    const fs::path path = fs::path(Dir(name)) / kManifestFile;
    Json document = *ParseJson("distribution.json", fixtures::ReadFile(path));
    change(document);
    fixtures::WriteFile(path, WriteJson(document));
    return Dir(name);
  }
  static Json* FindTensor(Json& document, const std::string& file, size_t index) {
    for (Json& bundle : document["bundles"])
      if (bundle["file"] == file) return &bundle["tensors"][index];
    return nullptr;
  }

  static std::unique_ptr<fixtures::TempDir> directory_;
};
std::unique_ptr<fixtures::TempDir> RefittedTiny::directory_;

TEST_F(RefittedTiny, KeepsTheTrunkAndTheOverlayByteForByte) {
  for (const char* file :
       {"trunk/trunk.safetensors", "overlays/generalists-1/experts.safetensors"}) {
    const std::string trunk = fixtures::ReadFile(fs::path(Dir("plain")) / file);
    ASSERT_FALSE(trunk.empty());
    EXPECT_TRUE(fixtures::ReadFile(fs::path(Dir("refit")) / file) == trunk) << file;
  }
}

TEST_F(RefittedTiny, RecordsDerivedTensorsAndHowTheyWereMade) {
  const Manifest manifest = Read("refit");
  ASSERT_TRUE(manifest.refit);
  EXPECT_EQ(manifest.versions.refit, RefitVersion(*manifest.refit));
  EXPECT_EQ(manifest.versions.shard, Read("plain").versions.shard);
  EXPECT_EQ(manifest.refit->steps, (std::vector<std::string>{"ridge", "refill"}));
  EXPECT_EQ(ParseManifest("again", WriteManifest(manifest))->refit->outcomes,
            manifest.refit->outcomes);
  size_t derived = 0, routers = 0;
  for (const BundleRecord& bundle : manifest.bundles) {
    for (const TensorRecord& tensor : bundle.tensors) {
      if (tensor.derived.empty()) continue;
      ++derived;
      routers += tensor.name.ends_with("mlp.gate.weight") ? 1 : 0;
      EXPECT_EQ(bundle.role, Role::kGroup) << tensor.name;
      EXPECT_FALSE(bundle.group == 1 && tensor.layer == 2) << "this pair was not accepted";
    }
  }
  EXPECT_EQ(routers, 8u) << "three groups times three layers, less one pair";
  EXPECT_GT(derived, routers);
}

TEST_F(RefittedTiny, PassesWithANoteAboutDerivedTensors) {
  const VerifyReport report = Verify(Dir("refit"));
  EXPECT_THAT(BrokenRules(report), IsEmpty()) << TextOf(report);
  EXPECT_THAT(report.rules, Contains("refit-derived"));
  EXPECT_THAT(TextOf(report),
              HasSubstr("were made by a refit; all others have the source's values"));
  EXPECT_THAT(Verify(Dir("plain")).rules, Not(Contains("refit-derived")));
}

TEST_F(RefittedTiny, ProvesEverythingElseAgainstTheSource) {
  for (const char* name : {"refit", "q4"}) {
    const VerifyReport report = Against(Dir(name));
    EXPECT_THAT(BrokenRules(report), IsEmpty()) << name << ": " << TextOf(report);
    EXPECT_GT(report.source_bytes, 0u);
    EXPECT_LT(report.source_bytes, report.bytes) << "derived tensors are not compared";
  }
}

TEST_F(RefittedTiny, FindsAChangedByteInATensorThatIsNotDerived) {
  // The last tensor of group 1 is in layer 2, whose refit was rejected for it.
  const std::string directory = Dir("changed");
  fs::copy(Dir("refit"), directory, fs::copy_options::recursive);
  const fs::path file = fs::path(directory) / "groups/001/experts.safetensors";
  std::string bytes = fixtures::ReadFile(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fixtures::WriteFile(file, bytes);
  VerifyOptions options;
  options.against = tiny::kSource.string();
  options.digests = false;
  EXPECT_THAT(BrokenRules(Verify(directory, options)), Contains("source-bytes"));
}

TEST_F(RefittedTiny, ComparesDerivedTensorsWithTheStore) {
  for (const char* name : {"refit", "q4"}) {
    const VerifyReport report = Against(Dir(name), StoreOf(name));
    EXPECT_THAT(BrokenRules(report), IsEmpty()) << name << ": " << TextOf(report);
    EXPECT_THAT(report.rules, Contains("refit-bytes"));
    EXPECT_THAT(TextOf(report), HasSubstr(" bytes, compared with the refit store"));
  }
}

// Somebody who changes a refitted tensor can correct every digest but those of the store's files.
TEST_F(RefittedTiny, FindsAForgedDerivedTensorWithTheStore) {
  for (const char* name : {"refit", "q4"}) {
    forger::Forgery forged = forger::Forgery::Of(Dir(name));
    for (Json& bundle : forged.manifest["bundles"]) {
      if (bundle["role"] != "group" || bundle["group"] != 0) continue;
      for (Json& tensor : bundle["tensors"]) {
        if (!tensor.contains("derived")) continue;
        char& byte = forged.files.at(bundle["file"])[tensor["offset"].get<size_t>() + 1];
        byte = static_cast<char>(byte ^ 1);
        break;
      }
    }
    const std::string directory = Dir(std::string("forged-") + name);
    forged.WriteTo(directory);
    EXPECT_THAT(BrokenRules(Against(directory)), IsEmpty()) << name;
    const VerifyReport report = Against(directory, StoreOf(name));
    EXPECT_THAT(BrokenRules(report), testing::ElementsAre("refit-bytes")) << TextOf(report);
    EXPECT_THAT(TextOf(report), HasSubstr("bytes made from the refit store: expected xxh3-128 "));
  }
}

TEST_F(RefittedTiny, RefusesStoresThatAreNotTheDistributions) {
  const auto refused = [](const std::string& directory, const std::string& store) {
    VerifyOptions options;
    options.against = tiny::kSource.string();
    options.refit_store = store;
    const auto report = VerifyDistribution(directory, options);
    return report ? std::string() : report.error().message;
  };
  StoreOptions unchanged;
  ASSERT_TRUE(tiny::WriteRefitted(*directory_ / "other-refit", unchanged));
  EXPECT_THAT(refused(Dir("refit"), StoreOf("other-refit")),
              HasSubstr("other-refit.refit: record: expected that of "));
  EXPECT_THAT(refused(Dir("plain"), StoreOf("refit")),
              HasSubstr("plain/distribution.json: expected a refitted distribution, found none"));
  EXPECT_THAT(refused(Dir("refit"), Dir("nothing")), HasSubstr("nothing/refit.json"));
}

TEST_F(RefittedTiny, RefusesDerivedTensorsWithoutARecord) {
  const std::string directory = With("no-record", [](Json& document) {
    document.erase("refit");
    document["versions"].erase("refit");
  });
  const VerifyReport report = Verify(directory);
  EXPECT_THAT(BrokenRules(report), Contains("refit-derived"));
  EXPECT_THAT(TextOf(report),
              HasSubstr("derived: expected none without \"refit\" in the manifest, found"));
}

TEST_F(RefittedTiny, RefusesADerivedTensorThatTheRecordLacks) {
  // The refit of layer 2 of group 1 was rejected.
  const std::string directory = With("not-accepted", [](Json& document) {
    for (Json& bundle : document["bundles"]) {
      if (bundle["file"] != "groups/001/experts.safetensors") continue;
      for (Json& tensor : bundle["tensors"])
        if (tensor["layer"] == 2) tensor["derived"] = tensor["experts"];
    }
  });
  const VerifyReport report = Against(directory);
  EXPECT_THAT(BrokenRules(report), Contains("refit-derived"));
  EXPECT_THAT(BrokenRules(report), Contains("source-tensors"));
  EXPECT_THAT(TextOf(report), HasSubstr("derived: expected some of \"\", which \"refit\" has of "
                                        "layer 2 and group 1"));
}

TEST_F(RefittedTiny, NoticesExpertsThatTheTensorLacks) {
  const std::string directory = With("fewer", [](Json& document) {
    for (Json& bundle : document["bundles"]) {
      if (bundle["file"] != kGroup0) continue;
      for (Json& tensor : bundle["tensors"])
        if (tensor["layer"] == 0) tensor.erase("derived");
    }
  });
  EXPECT_THAT(TextOf(Verify(directory)),
              HasSubstr("group 0, layer 0: derived experts: expected \""));
}

// The record of a part of a refit has some groups, and only these may be there.
TEST_F(RefittedTiny, NamesAGroupThatTheRecordLacks) {
  const std::string directory = With("of-a-part", [](Json& document) {
    Json& layers = document["refit"]["layers"];
    for (size_t i = layers.size(); i-- > 0;)
      if (layers[i]["group"] == 2) layers.erase(i);
  });
  const VerifyReport report = Verify(directory);
  EXPECT_THAT(BrokenRules(report), Contains("refit-derived"));
  EXPECT_THAT(TextOf(report),
              HasSubstr("group 2, layer 0: expected what the refit made of it, found none"));
}

TEST_F(RefittedTiny, RefusesNodesThatUseMoreExpertsThanTheyHave) {
  const auto with_top_k = [](const char* name, const char* top_k) {
    return TextOf(Verify(
        With(name, [&](Json& document) { document["refit"]["parameters"]["top_k"] = top_k; })));
  };
  EXPECT_THAT(with_top_k("too-many", "99"),
              HasSubstr("refit: parameters: top_k: expected at most 8, the experts of group 0 in "
                        "layer 0, found 99"));
  EXPECT_THAT(with_top_k("no-number", "all"), HasSubstr("top_k: expected a number up to"));
}

TEST_F(RefittedTiny, RefusesAnotherRefitVersion) {
  const std::string directory =
      With("version", [](Json& document) { document["refit"]["parameters"]["lambda"] = "0.1"; });
  EXPECT_THAT(TextOf(Verify(directory)), HasSubstr("refit version: expected"));
}

TEST_F(RefittedTiny, ReadsOnlyDerivedExpertsThatTheTensorHolds) {
  const std::string directory =
      With("others", [](Json& document) { (*FindTensor(document, kGroup0, 0))["derived"] = "15"; });
  EXPECT_THAT(TextOf(Verify(directory)),
              HasSubstr("derived: expected some of the experts that the tensor holds"));
}

TEST_F(RefittedTiny, DiffersFromThePlainDistributionInItsRefit) {
  const DiffReport report = DiffManifests(Read("plain"), Read("refit"));
  const auto named = [&](const char* what, const std::string& name) {
    return std::any_of(report.changes.begin(), report.changes.end(), [&](const auto& change) {
      return change.what == what && change.name == name;
    });
  };
  EXPECT_TRUE(named("refit", "version"));
  EXPECT_TRUE(named("refit", "parameters"));
  EXPECT_FALSE(named("model", "version"));
}

TEST_F(RefittedTiny, TheCardSaysWhatWasDoneToTheWeights) {
  const std::string card = fixtures::ReadFile(fs::path(Dir("refit")) / "README.md");
  EXPECT_THAT(card, HasSubstr("## What was done to the weights"));
  EXPECT_THAT(card, HasSubstr("- steps: ridge, refill"));
  EXPECT_THAT(card, HasSubstr("| 2 | 1 | 0.5000 | not accepted |"));
  EXPECT_THAT(fixtures::ReadFile(fs::path(Dir("plain")) / "README.md"),
              Not(HasSubstr("What was done")));
}

}  // namespace
}  // namespace moepack::manifest
