// moepack_node.json records what a node is part of, what it was made from, which expert of the
// model each of its ids refers to, and the digest of every file beside it. docs/planning.md
// documents every field; schema: manifest/document/node.schema.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/text/json.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

inline constexpr const char* kNodeFile = "moepack_node.json";
inline constexpr const char* kNodeFormatName = "moepack-node";
inline constexpr unsigned kNodeFormatMajor = 1, kNodeFormatMinor = 1;

struct NodeFileRecord {
  std::string file;  // in the node's directory
  uint64_t size = 0;
  std::string sha256;
};

struct NodeRecord {
  Versions versions;  // of the distribution
  uint32_t group = 0;
  // Maps a layer in decimal, or "*" for every layer without a key of its own, to ids such as
  // "0,6-11": the id at position i is the node's expert i.
  std::map<std::string, std::string> experts_by_layer;
  // Empty in files of version 1.0, which had no digests.
  std::string distribution_sha256;  // of the distribution.json that the node was made from
  std::string tool_version;         // of the moepack that assembled it
  RecipeRecord recipe;              // of the distribution
  std::vector<NodeFileRecord> files;

  bool has_digests() const { return !files.empty(); }
  const NodeFileRecord* FindFile(std::string_view file) const;
};

// Makes a record with everything except the files.
NodeRecord DescribeNode(const Manifest& manifest, const std::string& distribution_sha256,
                        uint32_t group);

// Writes "tool" of the node file: version, recipe and importance matrix.
moepack::Json NodeToolToJson(const NodeRecord& record);

// Returns the canonical text, with a fixed key order and files sorted by name. Equal records give
// equal bytes.
std::string WriteNodeRecord(NodeRecord record);
// Returns the same text after reading it back. kUnsupported, with the reader's reason, if
// ReadNodeRecord would refuse it or read a different record.
Result<std::string> ReadableNodeText(const NodeRecord& record);
// Parses a node file; the text may be hostile. kCorrupt for a wrong structure, kUnsupported for
// another major version. File names must have no directory.
Result<NodeRecord> ParseNodeRecord(const std::string& where, std::string_view text);
// Reads <directory>/moepack_node.json.
Result<NodeRecord> ReadNodeRecord(const std::string& directory);

// True if `directory` has a node file and no distribution.json.
bool IsNodeDirectory(const std::string& directory);
// kInvalidArgument: a node or another model was named in the place of a distribution.
Error HasNoGroups(const std::string& named);

// Compares size and SHA-256 of one file with the file on disk, following links; kMismatch if they
// differ.
Status CheckNodeFile(const std::string& directory, const NodeFileRecord& file,
                     ProgressCounter& progress);
// Does the same for every file of the record, several at a time. The error is for the first that
// differs.
Status CheckNodeFiles(const std::string& directory, const NodeRecord& record, size_t jobs,
                      const OnProgress& report = {});

}  // namespace moepack::manifest
