// Layouts that are malicious or have lost something: none can be pulled from, and nothing is left
// behind.
#include <gmock/gmock.h>

#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HostileLayout;

struct HostileCase {
  const char* name;
  void (*spoil)(HostileLayout&);
  Code code;
  std::vector<const char*> texts;  // of the message
};

void PrintTo(const HostileCase& one, std::ostream* out) { *out << one.name; }

class HostileLayout : public LayoutSample, public testing::WithParamInterface<HostileCase> {
 public:
  // Makes public what the cases need.
  using LayoutSample::AddBlob;
  using LayoutSample::BlobPath;
  using LayoutSample::Change;
  using LayoutSample::ChangeDistribution;
  using LayoutSample::digest_;
  using LayoutSample::DigestOfLayer;
  using LayoutSample::dir_;
  using LayoutSample::Json;
  using LayoutSample::Manifest;
  using LayoutSample::Read;
  using LayoutSample::SetManifest;

  // The layer of one file.
  static Json& Layer(Json& manifest, const std::string& path) {
    for (Json& layer : manifest["layers"]) {
      if (layer["annotations"]["org.cncf.model.filepath"] == path) return layer;
    }
    throw std::runtime_error(path);
  }
  void Describe(const std::string& key, const std::string& value) {
    Change([&](Json& manifest) { manifest["annotations"][key] = value; });
  }
  // Changes the config of v1.
  void Configure(const std::string& section, const std::string& key, const Json& value) {
    Json manifest = Manifest();
    const std::string old = manifest["config"]["digest"];
    Json config = Json::parse(fixtures::ReadFile(BlobPath(old)));
    config[section][key] = value;
    manifest["config"].update(AddBlob(config.dump()));
    SetManifest(manifest.dump());
  }
  void Annotate(const std::string& path, const std::string& key, const std::string& value) {
    Change([&](Json& manifest) { Layer(manifest, path)["annotations"][key] = value; });
  }
  void Rename(const std::string& path, const std::string& to) {
    Change([&](Json& manifest) {
      Json& notes = Layer(manifest, path)["annotations"];
      notes["org.cncf.model.filepath"] = notes["org.opencontainers.image.title"] = to;
    });
  }
  // The blob of a file, to be replaced.
  fs::path Blob(const std::string& path) const {
    const fs::path blob = BlobPath(DigestOfLayer(path));
    fs::remove(blob);
    return blob;
  }
};

constexpr const char* kConfigFile = "assets/config.json";
constexpr const char* kExperts = "groups/001/experts.safetensors";
constexpr const char* kRoleAnnotation = "org.moepack.role";

using H = HostileLayout;

const HostileCase kBlobCases[] = {
    {"BlobOfOtherBytes",
     [](H& h) {
       std::string bytes = fixtures::ReadFile(h.dir_ / "dist" / kExperts);
       bytes[bytes.size() / 2] ^= 1;
       fixtures::WriteFile(h.Blob(kExperts), bytes);
     },
     Code::kCorrupt,
     {"layout: blob sha256:", "(groups/001/experts.safetensors): content: expected sha256:"}},
    {"BlobOfAnotherSize",
     [](H& h) { fixtures::WriteFile(h.Blob(kExperts), "short"); },
     Code::kCorrupt,
     {"layout: blob sha256:", "(groups/001/experts.safetensors): size: expected ", "found 5"}},
    {"MissingBlob",
     [](H& h) { h.Blob(kExperts); },
     Code::kNotFound,
     {"layout: blob sha256:", "(groups/001/experts.safetensors): expected ", "no such blob"}},
    {"BlobThatIsALink",
     [](H& h) { fs::create_symlink(h.dir_ / "dist" / kExperts, h.Blob(kExperts)); },
     Code::kCorrupt,
     {"layout: blob sha256:", "expected a file, found a link"}},
    {"BlobThatIsADirectory",
     [](H& h) { fs::create_directory(h.Blob(kExperts)); },
     Code::kCorrupt,
     {"layout: blob sha256:", "expected a file, found something else"}},
    {"BlobsThatAreALink",
     [](H& h) {
       fs::rename(h.dir_ / "layout/blobs", h.dir_ / "elsewhere");
       fs::create_symlink(h.dir_ / "elsewhere", h.dir_ / "layout/blobs");
     },
     Code::kCorrupt,
     {"layout/blobs", "found a link"}},
    {"MissingDistributionJson",
     [](H& h) { h.Blob("distribution.json"); },
     Code::kNotFound,
     {"layout: blob sha256:", "(distribution.json): expected "}},
    {"MissingConfig",
     [](H& h) { fs::remove(h.BlobPath(h.Manifest()["config"]["digest"])); },
     Code::kNotFound,
     {"layout: blob sha256:", "no such blob"}},
    {"MissingManifest",
     [](H& h) { fs::remove(h.BlobPath(h.digest_)); },
     Code::kNotFound,
     {"layout: blob sha256:", "no such blob"}},
    {"ManifestOfOtherBytes",
     [](H& h) {
       std::string bytes = fixtures::ReadFile(h.BlobPath(h.digest_));
       bytes.back() = ' ';
       fs::remove(h.BlobPath(h.digest_));
       fixtures::WriteFile(h.BlobPath(h.digest_), bytes);
     },
     Code::kCorrupt,
     {"layout: blob sha256:", "content: expected sha256:"}},
};

const HostileCase kManifestCases[] = {
    {"ManifestThatIsTooLarge",
     [](H& h) { h.SetManifest(h.Manifest().dump() + std::string(4 << 20, ' ')); },
     Code::kCorrupt,
     {"layout: blob sha256:", "size: expected at most 4194304 bytes"}},
    {"ManifestThatIsTooDeep",
     [](H& h) { h.SetManifest(std::string(100000, '[')); },
     Code::kCorrupt,
     {"layout: blob sha256:"}},
    {"ManifestThatIsNoJson",
     [](H& h) { h.SetManifest("not JSON"); },
     Code::kCorrupt,
     {"layout: blob sha256:"}},
    {"Sha512",
     [](H& h) {
       h.Change([](H::Json& manifest) {
         H::Layer(manifest, kExperts)["digest"] = "sha512:" + std::string(128, '0');
       });
     },
     Code::kUnsupported,
     {"digest: expected sha256: and 64 hexadecimal digits, found \"sha512:"}},
    {"DuplicateTitles",
     [](H& h) { h.Rename("assets/tokenizer.json", "Assets/Config.json"); },
     Code::kCorrupt,
     {"path: expected one that no other layer has, found \"Assets/Config.json\""}},
    {"PathThatClimbs",
     [](H& h) { h.Rename(kConfigFile, "../x"); },
     Code::kCorrupt,
     {"path: expected one that stays inside the output, found \"../x\""}},
    {"AbsolutePath",
     [](H& h) { h.Rename(kConfigFile, "/etc/x"); },
     Code::kCorrupt,
     {"path: expected one that stays inside the output, found \"/etc/x\""}},
    {"Backslash",
     [](H& h) { h.Rename(kConfigFile, "assets\\x"); },
     Code::kCorrupt,
     {"path: expected one that stays inside the output"}},
    {"ControlCharacters",
     [](H& h) { h.Rename(kConfigFile, "assets/\x1b[2J"); },
     Code::kCorrupt,
     {"path: expected one that stays inside the output, found \"assets/\\x1b[2J\""}},
    {"ConfigOfOtherLayers",
     [](H& h) {
       H::Json manifest = h.Manifest();
       manifest["layers"].erase(manifest["layers"].size() - 1);
       h.SetManifest(manifest.dump());
     },
     Code::kCorrupt,
     {"diffIds: expected one for each of "}},
    {"ManifestOfAnImage",
     [](H& h) {
       H::Json manifest = h.Manifest();
       manifest.erase("artifactType");
       h.SetManifest(manifest.dump());
     },
     Code::kUnsupported,
     {"artifactType: expected application/vnd.cncf.model.manifest.v1+json, found none"}},
    {"IndexOfAnotherMediaType",
     [](H& h) {
       H::Json index = h.Read("layout/index.json");
       index["mediaType"] = "application/vnd.docker.distribution.manifest.list.v2+json";
       fixtures::WriteFile(h.dir_ / "layout/index.json", index.dump());
     },
     Code::kUnsupported,
     {"layout/index.json: mediaType: expected application/vnd.oci.image.index.v1+json, found "}},
    {"TagOfAnIndex",
     [](H& h) {
       H::Json index = h.Read("layout/index.json");
       index["manifests"][0]["mediaType"] = "application/vnd.oci.image.index.v1+json";
       fixtures::WriteFile(h.dir_ / "layout/index.json", index.dump());
     },
     Code::kUnsupported,
     {"layout: blob sha256:", "mediaType: expected application/vnd.oci.image.manifest.v1+json"}},
};

const HostileCase kDisagreements[] = {
    {"SizeThatIsWrong",
     [](H& h) { h.Change([](H::Json& manifest) { H::Layer(manifest, kExperts)["size"] = 5; }); },
     Code::kCorrupt,
     {"layer \"groups/001/experts.safetensors\": size: expected ", "found \"5\""}},
    {"DigestThatIsWrong",
     [](H& h) {
       h.Change([&](H::Json& manifest) {
         H::Layer(manifest, kConfigFile).update(h.AddBlob("{\"evil\":true}"));
       });
     },
     Code::kCorrupt,
     {"layer \"assets/config.json\": digest: expected \"sha256:", "as in distribution.json"}},
    {"MediaTypeThatIsWrong",
     [](H& h) {
       h.Change([](H::Json& manifest) {
         H::Layer(manifest, kExperts)["mediaType"] = "application/vnd.cncf.model.weight.v1.tar";
       });
     },
     Code::kCorrupt,
     {"mediaType: expected \"application/vnd.cncf.model.weight.v1.raw\" as in"}},
    {"FileThatIsNotListed",
     [](H& h) {
       h.Change([&](H::Json& manifest) {
         H::Json layer = H::Layer(manifest, kConfigFile);
         layer.update(h.AddBlob("#!/bin/sh"));
         layer["annotations"]["org.cncf.model.filepath"] = "assets/run.sh";
         layer["annotations"]["org.opencontainers.image.title"] = "assets/run.sh";
         manifest["layers"].push_back(layer);
       });
     },
     Code::kCorrupt,
     {"layer \"assets/run.sh\": expected a file that distribution.json lists"}},
    {"FileThatIsLeftOut",
     [](H& h) {
       h.Change([](H::Json& manifest) {
         H::Json kept = H::Json::array();
         for (const H::Json& layer : manifest["layers"]) {
           if (layer["annotations"][kRoleAnnotation] != "trunk") kept.push_back(layer);
         }
         manifest["layers"] = kept;
       });
     },
     Code::kCorrupt,
     {"layer \"trunk/trunk.safetensors\": expected one as distribution.json says, found none"}},
    {"RoleThatIsWrong",
     [](H& h) { h.Annotate(kExperts, kRoleAnnotation, "trunk"); },
     Code::kCorrupt,
     {"org.moepack.role: expected \"group\" as in distribution.json, found \"trunk\""}},
    {"GroupThatIsWrong",
     [](H& h) { h.Annotate(kExperts, "org.moepack.group", "002"); },
     Code::kCorrupt,
     {"org.moepack.group: expected \"001\" as in distribution.json, found \"002\""}},
    {"AnnotationThatIsMore",
     [](H& h) { h.Annotate(kExperts, "org.moepack.part", "1/2"); },
     Code::kCorrupt,
     {"org.moepack.part: expected none as in distribution.json, found \"1/2\""}},
    {"GroupsThatAreWrong",
     [](H& h) { h.Change([](H::Json& m) { m["annotations"]["org.moepack.groups"] = "000,001"; }); },
     Code::kCorrupt,
     {"org.moepack.groups: expected \"000,001,002\" as in distribution.json"}},
    {"SetIdThatIsWrong",
     [](H& h) { h.Change([](H::Json& m) { m["annotations"]["org.moepack.set.id"] = "x"; }); },
     Code::kCorrupt,
     {"org.moepack.set.id: expected \"sha256:"}},
    {"DigestOfDistributionThatIsWrong",
     [](H& h) {
       h.Change([](H::Json& m) { m["annotations"]["org.moepack.distribution.digest"] = "x"; });
     },
     Code::kCorrupt,
     {"org.moepack.distribution.digest: expected \"sha256:"}},
    {"LicenceThatIsWrong",
     [](H& h) { h.Describe("org.opencontainers.image.licenses", "MIT"); },
     Code::kCorrupt,
     {"org.opencontainers.image.licenses: expected none as in distribution.json, found \"MIT\""}},
    {"RevisionThatIsWrong",
     [](H& h) { h.Describe("org.opencontainers.image.revision", "main"); },
     Code::kCorrupt,
     {"org.opencontainers.image.revision: expected none as in distribution.json, found \"main\""}},
    {"VersionThatIsWrong",
     [](H& h) { h.Describe("org.opencontainers.image.version", "1.0"); },
     Code::kCorrupt,
     {"org.opencontainers.image.version: expected \"", "as in distribution.json, found \"1.0\""}},
    {"DateThatIsWrong",
     [](H& h) { h.Describe("org.opencontainers.image.created", "2026-01-31T12:00:00Z"); },
     Code::kCorrupt,
     {"org.opencontainers.image.created: expected none as in distribution.json"}},
    {"LicenceThatIsWrongInTheConfig",
     [](H& h) { h.Configure("descriptor", "licenses", {"MIT"}); },
     Code::kCorrupt,
     {"descriptor.licenses: expected none as in distribution.json, found [\"MIT\"]"}},
    {"RevisionThatIsWrongInTheConfig",
     [](H& h) { h.Configure("descriptor", "revision", "main"); },
     Code::kCorrupt,
     {"descriptor.revision: expected none as in distribution.json, found \"main\""}},
    {"VersionThatIsWrongInTheConfig",
     [](H& h) { h.Configure("descriptor", "version", "1.0"); },
     Code::kCorrupt,
     {"descriptor.version: expected \"", "as in distribution.json, found \"1.0\""}},
    {"FamilyThatIsWrongInTheConfig",
     [](H& h) { h.Configure("descriptor", "family", "mixtral"); },
     Code::kCorrupt,
     {"descriptor.family: expected \"", "as in distribution.json, found \"mixtral\""}},
    {"SourceThatIsWrongInTheConfig",
     [](H& h) { h.Configure("descriptor", "sourceURL", "https://host/model"); },
     Code::kCorrupt,
     {"descriptor.sourceURL: expected none as in"}},
    {"ArchitectureThatIsWrongInTheConfig",
     [](H& h) { h.Configure("config", "architecture", "Other"); },
     Code::kCorrupt,
     {"config.architecture: expected ", "as in distribution.json, found \"Other\""}},
    {"SizeThatIsWrongInTheConfig",
     [](H& h) { h.Configure("config", "paramSize", "670b"); },
     Code::kCorrupt,
     {"config.paramSize: expected \"", "as in distribution.json, found \"670b\""}},
    {"RecipeThatIsWrongInTheConfig",
     [](H& h) { h.Configure("config", "quantization", "Q8_0"); },
     Code::kCorrupt,
     {"config.quantization: expected none as in distribution.json, found \"Q8_0\""}},
    {"FormatThatIsLeftOutOfTheConfig",
     [](H& h) { h.Configure("config", "format", nullptr); },
     Code::kCorrupt,
     {"config.format: expected \"safetensors\" as in distribution.json, found null"}},
    {"ViewOfAGroupThatIsNotThere",
     [](H& h) { h.Change([](H::Json& m) { m["annotations"]["org.moepack.view.group"] = "009"; }); },
     Code::kCorrupt,
     {"org.moepack.view.group: expected a group of distribution.json, found \"009\""}},
    {"NewerSchema",
     [](H& h) { h.Change([](H::Json& m) { m["annotations"]["org.moepack.schema"] = "2"; }); },
     Code::kUnsupported,
     {"org.moepack.schema: expected 1, found \"2\""}},
    {"DistributionThatIsNotFirst",
     [](H& h) { h.Change([](H::Json& m) { std::swap(m["layers"][0], m["layers"][1]); }); },
     Code::kCorrupt,
     {"layer 0: expected distribution.json, found \"assets/"}},
    {"NoLayers",
     [](H& h) { h.Change([](H::Json& m) { m["layers"] = H::Json::array(); }); },
     Code::kCorrupt,
     {"layer 0: expected distribution.json, found none"}},
    {"DistributionThatIsNoJson",
     [](H& h) { h.ChangeDistribution("{", "["); },
     Code::kCorrupt,
     {"layout: blob sha256:", "(distribution.json)"}},
    {"DistributionWithAnotherPath",
     [](H& h) { h.ChangeDistribution("groups/001/experts", "groups/001/EXPERTS"); },
     Code::kCorrupt,
     {"layer \"groups/001/EXPERTS.safetensors\": expected one as distribution.json says"}},
    {"DistributionWithAPathThatClimbs",
     [](H& h) { h.ChangeDistribution("groups/001/experts", "groups/../../experts"); },
     Code::kCorrupt,
     {"layout: blob sha256:", "(distribution.json)"}},
};

TEST_P(HostileLayout, IsRefused) {
  PublishOne();
  GetParam().spoil(*this);
  const auto before = tiny::Tree(dir_.path());
  const auto report = PullGroups({1}, Ref());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, GetParam().code) << report.error().message;
  EXPECT_THAT(report.error().message, HasSubstr("layout"));
  for (const char* text : GetParam().texts) EXPECT_THAT(report.error().message, HasSubstr(text));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
  EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
}

std::string CaseName(const testing::TestParamInfo<HostileCase>& one) { return one.param.name; }

INSTANTIATE_TEST_SUITE_P(Blobs, HostileLayout, testing::ValuesIn(kBlobCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Manifests, HostileLayout, testing::ValuesIn(kManifestCases), CaseName);
INSTANTIATE_TEST_SUITE_P(Disagreements, HostileLayout, testing::ValuesIn(kDisagreements), CaseName);

}  // namespace
}  // namespace moepack::registry
