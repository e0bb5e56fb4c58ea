// The contents of a distribution, in the smallest pieces it can be cut into, read with nothing but
// the offsets in the manifest.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"
#include "manifest/document/parts.h"
#include "tests/conformance/split_checkpoint.h"

namespace split {

// Part of the distribution, tensor, expert id (-1: the tensor has no expert axis).
using PieceName = std::tuple<moepack::manifest::PartKey, std::string, int64_t>;
struct Piece {
  std::string dtype, bytes;
  bool operator==(const Piece&) const = default;
};
using Pieces = std::map<PieceName, Piece>;

inline std::string PieceText(const PieceName& name) {
  return moepack::Cat(moepack::manifest::PartText(std::get<0>(name)), " ", std::get<1>(name),
                      " expert ", std::get<2>(name));
}

// A tensor with ids holds an equal part for each; the expert axis is the slowest one.
inline void AddPieces(const moepack::manifest::BundleRecord& bundle,
                      const moepack::manifest::TensorRecord& tensor, const std::string& bytes,
                      Pieces& pieces) {
  const auto name = [&](int64_t id) {
    return PieceName{moepack::manifest::PartOf(bundle), tensor.name, id};
  };
  if (tensor.expert_ids.empty()) pieces[name(-1)] = {tensor.dtype, bytes};
  const size_t part = tensor.expert_ids.empty() ? 0 : bytes.size() / tensor.expert_ids.size();
  for (size_t i = 0; i < tensor.expert_ids.size(); ++i) {
    pieces[name(tensor.expert_ids[i])] = {tensor.dtype, bytes.substr(i * part, part)};
  }
}

inline Pieces PiecesOf(const fs::path& distribution) {
  Pieces pieces;
  const auto manifest = moepack::manifest::ReadManifest(distribution.string());
  EXPECT_TRUE(manifest) << manifest.error().message;
  if (!manifest) return pieces;
  for (const moepack::manifest::BundleRecord& bundle : manifest->bundles) {
    const std::string file = fixtures::ReadFile(distribution / bundle.file);
    for (const moepack::manifest::TensorRecord& tensor : bundle.tensors) {
      AddPieces(bundle, tensor, file.substr(tensor.offset, tensor.bytes), pieces);
    }
  }
  return pieces;
}

// Names pieces that only one of them holds or that differ.
inline void ExpectSamePieces(const Pieces& expected, const Pieces& found) {
  EXPECT_GT(expected.size(), 0u);
  for (const auto& [name, piece] : expected) {
    const auto other = found.find(name);
    ASSERT_NE(other, found.end()) << PieceText(name) << ": missing";
    ASSERT_EQ(other->second.dtype, piece.dtype) << PieceText(name);
    ASSERT_TRUE(other->second.bytes == piece.bytes) << PieceText(name) << ": the bytes differ";
  }
  for (const auto& [name, piece] : found) {
    ASSERT_TRUE(expected.contains(name)) << PieceText(name) << ": not expected here";
  }
}

}  // namespace split
