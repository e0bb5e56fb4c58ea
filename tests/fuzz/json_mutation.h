// Damage that knows JSON: the document stays valid, but one of its nodes is changed. A bytewise
// mutator hardly ever turns an 8 into a 0, or changes one letter of a name.
#pragma once

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/json_variants.h"
#include "tests/fuzz/mutation.h"

namespace fuzz {

using JsonPath = JsonNode::json_pointer;

inline void PlacesBelow(const JsonNode& node, const JsonPath& path, std::vector<JsonPath>& out) {
  out.push_back(path);
  if (node.is_array()) {
    for (size_t i = 0; i < node.size(); ++i) PlacesBelow(node[i], path / i, out);
  } else if (node.is_object()) {
    for (const auto& [name, value] : node.items()) PlacesBelow(value, path / name, out);
  }
}

// The path without its numbers: places of one shape are read by the same code.
inline std::string ShapeOf(const JsonPath& path) {
  std::string shape = path.to_string();
  std::erase_if(shape, [](char c) { return c >= '0' && c <= '9'; });
  return shape;
}

inline std::string TextOf(const JsonNode& document) {
  return document.dump(-1, ' ', false, JsonNode::error_handler_t::replace);
}

class JsonMutator {
 public:
  // Texts that are not JSON documents are left out.
  JsonMutator(const std::vector<std::string>& texts, uint64_t seed) : random_(seed) {
    for (const std::string& text : texts) {
      JsonNode document = JsonNode::parse(text, nullptr, /*allow_exceptions=*/false);
      if (document.is_structured()) seeds_.push_back(std::move(document));
    }
  }
  bool has_seeds() const { return !seeds_.empty(); }

  // Every variant of one place of every shape.
  template <class Use>
  void EachSingleChange(const Use& use) const {
    std::set<std::string> shapes;
    for (const JsonNode& seed : seeds_) {
      std::vector<JsonPath> places;
      PlacesBelow(seed, JsonPath(), places);
      for (const JsonPath& place : places) {
        if (!shapes.insert(ShapeOf(place)).second) continue;
        for (JsonNode& variant : Variants(seed[place])) {
          JsonNode document = seed;
          document[place] = std::move(variant);
          use(TextOf(document));
        }
      }
    }
  }

  // A seed with one to three changed places.
  std::string Next() {
    JsonNode document = seeds_[random_.Below(seeds_.size())];
    for (size_t count = 1 + random_.Below(3); count > 0; --count) Change(document);
    return TextOf(document);
  }

 private:
  void Change(JsonNode& document) {
    JsonNode& node = Place(document);
    std::vector<JsonNode> variants = Variants(node);
    JsonNode chosen = std::move(variants[random_.Below(variants.size())]);
    node = std::move(chosen);
  }
  // Descends from the root at random, so that nodes near the root are not lost among long lists.
  JsonNode& Place(JsonNode& document) {
    JsonNode* node = &document;
    while (node->is_structured() && !node->empty() && random_.Below(5) > 0) {
      auto child = node->begin();
      std::advance(child, static_cast<std::ptrdiff_t>(random_.Below(node->size())));
      node = &*child;
    }
    return *node;
  }

  std::vector<JsonNode> seeds_;
  Random random_;
};

}  // namespace fuzz
