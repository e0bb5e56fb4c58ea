// The options that `moepack COMMAND -h` shows: the ten at most that matter most. `--help` shows
// all.
#pragma once

#include <array>
#include <string_view>

namespace moepack::cli {

inline constexpr size_t kMostEssentialOptions = 10;

struct EssentialOptions {
  std::string_view command;
  // By their long names, in the order in which they are shown; the rest is empty.
  std::array<std::string_view, kMostEssentialOptions> options;
};

// A row for every command. What every command has is not listed here.
inline constexpr EssentialOptions kEssentialOptions[] = {
    {"list-tensors",
     {"--summary", "--groups", "--recipe", "--part", "--layer", "--expert", "--regex", "--check",
      "--json"}},
    {"profile",
     {"--text", "--tokens", "--bucket", "--output", "--imatrix", "--trace", "--generate",
      "--executor", "--dry-run", "--force"}},
    {"statistics",
     {"--output", "--from", "--to", "--model", "--plan", "--score", "--budget", "--json"}},
    {"replay",
     {"--slots", "--bytes", "--policy", "--model", "--statistics", "--warm-up", "--prefill-batch",
      "--json"}},
    {"plan",
     {"--groups", "--node", "--sweep", "--statistics", "--partition", "--overlay-file", "--recipe",
      "--context", "--output", "--json"}},
    {"shard-experts",
     {"--output", "--groups", "--plan", "--overlay-file", "--statistics", "--format", "--recipe",
      "--only", "--dry-run", "--force"}},
    {"quantize",
     {"--output", "--recipe", "--imatrix", "--experts-type", "--trunk-type", "--calibrate",
      "--max-part-size", "--memory", "--dry-run", "--force"}},
    {"build",
     {"--output", "--groups", "--plan", "--statistics", "--overlay-file", "--recipe", "--imatrix",
      "--prove", "--dry-run", "--force"}},
    {"join", {"--output", "--link", "--dry-run", "--force", "--json"}},
    {"refit",
     {"--plan", "--text", "--store", "--output", "--against", "--held-out-text", "--memory",
      "--executor", "--dry-run", "--force"}},
    {"overlay",
     {"--output", "--overlay-file", "--statistics", "--size", "--version", "--source", "--keep",
      "--link", "--dry-run", "--force"}},
    {"assemble",
     {"--group", "--output", "--overlay", "--layout", "--link", "--name", "--dry-run", "--force"}},
    {"verify",
     {"--against", "--group", "--no-digests", "--digest", "--complete", "--sample", "--key",
      "--cold", "--format", "--verbose"}},
    {"diff", {"--tensors", "--group", "--exit-code", "--json"}},
    {"check", {"--group", "--against", "--tokens", "--tolerance", "--executor", "--format"}},
    {"publish",
     {"--moving-tag", "--to-dir", "--link", "--mount-from", "--allow-incomplete", "--username",
      "--password-stdin", "--dry-run", "--force", "--json"}},
    {"pull",
     {"--group", "--output", "--assemble", "--overlay", "--key", "--update", "--username",
      "--password-stdin", "--dry-run", "--json"}},
    {"copy",
     {"--no-signatures", "--no-views", "--mount-from", "--link", "--username", "--password-stdin",
      "--dry-run", "--force"}},
    {"ls", {"--username", "--password-stdin", "--plain-http", "--json"}},
    {"inspect", {"--raw", "--username", "--password-stdin", "--plain-http", "--json"}},
    {"keygen", {"--output", "--type", "--passphrase-file"}},
    {"sign",
     {"--key", "--passphrase-file", "--oms", "--identity", "--output", "--username",
      "--password-stdin", "--dry-run"}},
    {"tag", {"--remove", "--force", "--username", "--password-stdin", "--dry-run"}},
    {"gc", {"--older-than", "--dry-run", "--json"}},
    {"place", {"--text", "--tokens", "--prompt", "--rule", "--fallback", "--executor", "--json"}},
    {"run",
     {"--group", "--prompt", "--tokens", "--count", "--temperature", "--seed", "--context",
      "--executor", "--compare", "--list-devices"}},
    {"eval",
     {"--text", "--tokens", "--against", "--gate", "--record", "--generate", "--context",
      "--executor", "--format", "--json"}},
    {"experiment",
     {"--groups", "--strategies", "--recipes", "--statistics", "--text", "--output", "--refit-text",
      "--until-error", "--looks", "--dry-run"}},
    {"report", {"--output", "--force"}},
    {"completion", {}},
};

}  // namespace moepack::cli
