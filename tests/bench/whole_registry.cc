// Publishing to docker-registry on loopback and pulling from it, beside skopeo, which copies and
// checks the same blobs.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"
#include "tests/remote/support/docker_registry.h"

namespace bench {
namespace {

using moepack::Cat;
using moepack::FormatBytes;
using moepack::remote::DockerRegistry;
using moepack::remote::FindProgram;

constexpr double kOfSkopeo = 1.0;
constexpr uint64_t kMostRegistryMemory = 100e6;

// skopeo without any state of earlier runs or of the machine.
Command Skopeo(const fs::path& scratch, const std::string& from, const std::string& to) {
  const std::string empty = (scratch / "registries.conf").string();
  return {"env",
          Cat("HOME=", (scratch / "home").string()),
          FindProgram("skopeo"),
          "--insecure-policy",
          "--tmpdir",
          scratch.string(),
          "--registries-conf",
          empty,
          "copy",
          "--quiet",
          "--src-tls-verify=false",
          "--dest-tls-verify=false",
          from,
          to};
}

Status Forget(const fs::path& scratch) {
  std::ofstream(scratch / "registries.conf").close();  // empty
  fs::remove_all(scratch / "home");
  fs::create_directories(scratch / "home");
  return WarmTree(scratch / "layout");
}

}  // namespace

// An empty registry, since both must send all blobs.
Result<Sample> Run::SendOnce(const std::string& what, const std::string& tag) {
  fs::remove_all(In("registry"));
  DockerRegistry registry(In("registry"));
  const std::string target = Cat(registry.host(), "/bench/model:", tag);
  SHARD_CHECK(Forget(options_.scratch));
  sync();
  if (what == "skopeo") {
    return RunCommand(Skopeo(options_.scratch, Cat("oci:", In("layout").string(), ":v1"),
                             Cat("docker://", target)));
  }
  return RunCommand(
      {options_.moepack, "publish", In("out").string(), Cat("oci://", target), "--no-views"});
}

Result<Sample> Run::FetchOnce(const std::string& what, const std::string& reference) {
  const fs::path pulled = In("pulled");
  fs::remove_all(pulled);
  SHARD_CHECK(Forget(options_.scratch));
  sync();
  if (what == "skopeo") {
    return RunCommand(
        Skopeo(options_.scratch, Cat("docker://", reference), Cat("oci:", pulled.string(), ":v1")));
  }
  return RunCommand({options_.moepack, "pull", Cat("oci://", reference), "--group",
                     "0,1,2,3,4,5,6,7", "-o", pulled.string()});
}

void Run::AddBeside(const std::string& work, const Series& ours, const Series& peer,
                    uint64_t bytes) {
  const double ratio = MedianSeconds(peer.samples) / MedianSeconds(ours.samples);
  report_.rows.push_back({.work = work,
                          .measured = Speed(ours.samples, bytes),
                          .beside = Cat("skopeo ", Speed(peer.samples, bytes)),
                          .figure = Fixed(ratio, 2) + " of skopeo",
                          .target = "at least 1.0",
                          .verdict = Judge(ratio >= kOfSkopeo)});
  const uint64_t peak = HighestPeak(ours.samples);
  report_.rows.push_back({.work = work + ": peak memory",
                          .beside = Cat("skopeo ", FormatBytes(HighestPeak(peer.samples))),
                          .figure = FormatBytes(peak),
                          .target = "under 100 MB",
                          .verdict = Judge(peak < kMostRegistryMemory)});
}

// A distribution of 8 groups, and a layout that holds it.
Status Run::MakeLayout(uint64_t bytes) {
  constexpr uint64_t kHidden = 2048, kWidth = 1024, kLayers = 4,
                     kExpertBytes = 3 * kHidden * kWidth * 2;
  const uint64_t experts = std::max<uint64_t>(bytes / (kLayers * kExpertBytes) / 8 * 8, 16);
  SHARD_CHECK(MakeCheckpoint(
      In("source"),
      {"--layers", std::to_string(kLayers), "--experts", std::to_string(experts), "--hidden",
       std::to_string(kHidden), "--ff", std::to_string(kWidth), "--vocabulary", "8192"}));
  const std::string layout = Cat("layout:", In("layout").string(), ":v1");
  const Command steps[] = {{options_.moepack, "shard-experts", In("source").string(), "--groups",
                            "8", "--no-uniform", "-o", In("out").string()},
                           {options_.moepack, "publish", In("out").string(), layout, "--no-views"}};
  for (const Command& step : steps) {
    if (const auto made = RunCommand(step); !made) return made.error();
  }
  fs::remove_all(In("source"));
  return moepack::Ok();
}

Status Run::Registry(uint64_t bytes, int repetitions) {
  if (!DockerRegistry::IsInstalled() || FindProgram("skopeo").empty()) {
    std::cerr << "publish and pull are left out: docker-registry or skopeo is not installed\n";
    return moepack::Ok();
  }
  SHARD_CHECK(MakeLayout(bytes));
  const uint64_t size = TreeBytes(In("out"));
  const auto measure = [&](const std::string& work, const auto& once) -> Status {
    Series ours{work, {}}, peer{work + ", skopeo copy", {}};
    for (int i = 0; i < repetitions; ++i) {
      std::cerr << work << ": " << i + 1 << " of " << repetitions << '\n';
      SHARD_TRY(const Sample theirs, once("skopeo"));
      SHARD_TRY(const Sample own, once("moepack"));
      peer.samples.push_back(theirs);
      ours.samples.push_back(own);
    }
    AddBeside(work, ours, peer, size);
    report_.series.push_back(std::move(ours));
    report_.series.push_back(std::move(peer));
    return moepack::Ok();
  };
  SHARD_CHECK(measure(Cat("publish ", FormatBytes(size), " to docker-registry"),
                      [&](const std::string& what) { return SendOnce(what, "v1"); }));
  DockerRegistry registry(In("registry"));  // as the last publish left it
  const std::string reference = Cat(registry.host(), "/bench/model:v1");
  SHARD_CHECK(measure(Cat("pull ", FormatBytes(size), " from docker-registry"),
                      [&](const std::string& what) { return FetchOnce(what, reference); }));
  for (const char* name : {"out", "layout", "pulled", "registry", "home"}) fs::remove_all(In(name));
  return moepack::Ok();
}

}  // namespace bench
