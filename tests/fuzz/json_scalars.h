// Replacements for a number or text of a JSON document, and for any node.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fuzz {

using JsonNode = nlohmann::ordered_json;

// As a value, or as a list of one value.
inline std::vector<JsonNode> OtherTypes(const JsonNode& node) {
  return {nullptr,
          true,
          0,
          "",
          "x",
          JsonNode::array(),
          JsonNode::object(),
          JsonNode::array({node}),
          JsonNode::object({{"*", node}})};
}

inline std::vector<JsonNode> NumberVariants(const JsonNode& node) {
  std::vector<JsonNode> out = {0,
                               1,
                               -1,
                               2,
                               7,
                               -0.5,
                               1e308,
                               0x7fffffff,
                               0xffffffffu,
                               uint64_t{1} << 32,
                               uint64_t{1} << 53,
                               uint64_t{1} << 63,
                               std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<uint64_t>::max(),
                               node.dump()};
  if (!node.is_number_unsigned() && !node.is_number_integer()) return out;
  const auto number = node.get<uint64_t>();
  for (const uint64_t other : {number + 1, number - 1, number * 2, number ^ 8})
    out.emplace_back(other);
  return out;
}

// Texts that readers of documents take as ids, paths, names and versions.
inline std::vector<JsonNode> StringVariants(const std::string& text) {
  std::vector<JsonNode> out;
  for (const char* other : {"*",
                            "0",
                            "1",
                            "-1",
                            "00",
                            "0-0",
                            "1-0",
                            "0,0",
                            "1,0",
                            "0-",
                            "-",
                            ",",
                            "0-4294967295",
                            "0-18446744073709551615",
                            "4294967295",
                            "0 ",
                            "9-9",
                            "..",
                            "../x",
                            "/x",
                            "a/../b",
                            "./a",
                            "a//b",
                            "a\\b",
                            "a\nb",
                            "\x1b[31m",
                            "\xc2\x9b"
                            "31m",
                            "\xe2\x80\xae"
                            "b",
                            "\xef\xbf\xbf"})
    out.emplace_back(other);
  out.emplace_back(text.substr(0, text.size() / 2));
  out.emplace_back(text + "x");
  out.emplace_back(text + "," + text);
  out.emplace_back(text + std::string("\0b", 2));
  out.emplace_back(std::string(5000, 'a'));
  std::string upper = text;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out.emplace_back(upper);
  return out;
}

}  // namespace fuzz
