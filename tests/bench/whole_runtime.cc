// moepack run: how long a node takes until its first token, beside reading its files once.
#include <iostream>

#include "libshard/base/text/text.h"
#include "tests/bench/whole_run.h"

namespace bench {
namespace {

using moepack::Cat;

constexpr double kOfReading = 1.2;  // times as long as reading

// What group 0 loads.
std::vector<fs::path> FilesOfNode(const fs::path& distribution) {
  std::vector<fs::path> files;
  for (const char* part : {"head", "trunk", "routers", "groups/000", "assets"}) {
    if (!fs::exists(distribution / part)) continue;
    for (const auto& entry : fs::directory_iterator(distribution / part))
      files.push_back(entry.path());
  }
  return files;
}

uint64_t BytesOf(const std::vector<fs::path>& files) {
  uint64_t bytes = 0;
  for (const fs::path& file : files) bytes += fs::file_size(file);
  return bytes;
}

}  // namespace

Status Run::Load(uint32_t experts, int repetitions) {
  const fs::path source = In("source"), out = In("out");
  SHARD_CHECK(MakeCheckpoint(
      source, {"--layers", "1", "--experts", std::to_string(experts), "--hidden", "2048", "--ff",
               "768", "--top-k", "8", "--head-size", "128", "--vocabulary", "4096"}));
  const Command build = {
      options_.moepack, "build", source.string(), "--groups",    "2",  "--quantize",
      "Q8_0",           "--pre", "qwen2",         "--no-verify", "-o", out.string()};
  SHARD_CHECK(RunCommand(build));
  const std::vector<fs::path> files = FilesOfNode(out);
  const std::string name =
      Cat("run until the first token, ", moepack::FormatBytes(BytesOf(files)), " in Q8_0, cold");
  Command run = {options_.moepack, "run", out.string(), "--group", "0", "--tokens", "1", "-n", "1"};
  Command cat = {"cat"};
  for (const fs::path& file : files) cat.push_back(file.string());
  Series ours{name, {}}, trusting{name + ", --no-verify", {}}, peer{"cat of the same files", {}};
  for (int i = 0; i < repetitions; ++i) {
    std::cerr << name << ": " << i + 1 << " of " << repetitions << '\n';
    Command no_verify = run;
    no_verify.push_back("--no-verify");
    for (const auto& [command, series] :
         {std::pair{&cat, &peer}, std::pair{&run, &ours}, std::pair{&no_verify, &trusting}}) {
      SHARD_CHECK(ChillTree(out));
      SHARD_TRY(const Sample sample, RunCommand(*command));
      series->samples.push_back(sample);
    }
  }
  const double reading = MedianSeconds(peer.samples);
  const double longer = MedianSeconds(ours.samples) / reading;
  report_.rows.push_back({.work = name + "; beside cat of its files",
                          .measured = Speed(ours.samples, BytesOf(files)),
                          .beside = Speed(peer.samples, BytesOf(files)),
                          .figure = Fixed(longer, 2) + " times as long",
                          .target = "at most 1.2",
                          .verdict = Judge(longer <= kOfReading)});
  report_.rows.push_back(
      {.work = name + ", --no-verify",
       .measured = Speed(trusting.samples, BytesOf(files)),
       .figure = Fixed(MedianSeconds(trusting.samples) / reading, 2) + " times as long"});
  for (Series* series : {&ours, &trusting, &peer}) report_.series.push_back(std::move(*series));
  fs::remove_all(source);
  fs::remove_all(out);
  return moepack::Ok();
}

}  // namespace bench
