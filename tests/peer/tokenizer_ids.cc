// Our side of tokenizer_ids.mjs. Reads JSON from standard input, writes JSON to standard output.
//   tokenizer-ids encode FILE.gguf   {"texts": [...]} -> the ids of each text, ends and pieces
//   tokenizer-ids make DIRECTORY     {"texts": [...]} -> a vocabulary for every pre-tokenizer id
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/format/read_header.h"
#include "runtime-shim/tokenizer/tokenizer.h"
#include "tests/peer/tokenizer_vocabulary.h"
#include "tests/runtime-shim/tokenizer/documented_ids.h"

namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::string>;

int Fail(const moepack::Error& error) {
  std::cerr << error.message << "\n";
  return 1;
}

moepack::Result<Json> Ids(const moepack::runtime::Tokenizer& tokenizer, const Texts& texts,
                          const moepack::runtime::Tokenizer::Options& options) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    SHARD_TRY(const auto ids, tokenizer.Encode(text, options));
    list.push_back(ids);
  }
  return list;
}

moepack::Result<Json> Answer(const std::string& path, const Texts& texts) {
  SHARD_TRY(const auto file, moepack::InputFile::Open(path));
  SHARD_TRY(const auto header, moepack::ReadGgufHeader(file, path));
  SHARD_TRY(const auto tokenizer, moepack::runtime::OpenTokenizer(path, header.metadata));
  Json out;
  SHARD_TRY(out["special"], Ids(*tokenizer, texts, {.add_special = false}));
  SHARD_TRY(out["plain"], Ids(*tokenizer, texts, {.add_special = false, .parse_special = false}));
  SHARD_TRY(out["added"], tokenizer->Encode("", {}));
  out["ends"] = Json::array();
  out["pieces"] = Json::array();
  for (uint32_t id = 0; id < tokenizer->size(); ++id) {
    if (tokenizer->IsEnd(id)) out["ends"].push_back(id);
    const std::string piece = tokenizer->Piece(id);
    out["pieces"].push_back(std::vector<uint8_t>(piece.begin(), piece.end()));
  }
  return out;
}

moepack::Result<Json> Make(const std::string& directory, const Texts& texts) {
  Json names = Json::array();
  uint32_t seed = 0;
  const auto write = [&](const std::string& name, const moepack::GgufMetadata& metadata) {
    std::ofstream(directory + "/" + name + ".gguf", std::ios::binary)
        << moepack::BuildGgufHeader(metadata, {});
    names.push_back(name);
  };
  for (const std::string& id : moepack::runtime::DocumentedIds()) {
    write(id, peer::BpeVocabulary(id, texts, ++seed));
    write(id + "-2", peer::BpeVocabulary(id, texts, ++seed));
  }
  for (const bool prefix : {true, false}) {
    write(prefix ? "spm" : "spm-without-prefix", peer::SpmVocabulary(prefix, texts, ++seed));
  }
  for (const char* name : {"characters", "characters-2"})
    write(name, peer::CharacterVocabulary(texts, ++seed));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1];
  const Texts texts = Json::parse(std::cin).at("texts").get<Texts>();
  const auto result = mode == "make" ? Make(argv[2], texts) : Answer(argv[2], texts);
  if (!result) return Fail(result.error());
  std::cout << result->dump();
  return 0;
}
