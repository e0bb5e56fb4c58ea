// ParseRecipeText, which reads the recipe of a distribution.json, and ParseTensorTypes, which reads
// rules that users pass on in files.
#include "libshard/recipe/recipe_text.h"

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_override.h"
#include "tests/fuzz/target.h"

namespace recipe_text_target {

using moepack::Cat;

constexpr const char* kWhere = "damaged/recipe";

std::vector<std::string> Seeds() {
  return {"exact",
          "Q4_K_M",
          "--pure q8_0 --no-repack",
          "Q4_K_M --trunk-type q8_0 --experts-type q4_K --overlay-type q6_K "
          "--output-tensor-type f16 --token-embedding-type q8_0 --tensor-type "
          "ffn_down=q6_K,blk\\.[0-9]{1,2}\\.attn_v=q8_0 --tensor-type x=f16 --no-repack",
          "BF16 --allow-requantize",
          "ffn_down=q6_K\n# a comment\n attn_(k|v)=q8_0, \\D{2,3}=f32",
          "open{=q6_K\nb=f16",
          "[{]=q6_K\nb=f16",
          "Q8_0 --tensor-type a=q8_0\n# lines of an earlier version\nb=f16"};
}

std::vector<std::string> Refused() {
  return {"--no-repack Q4_K_M", "Q4_K_M --tensor-type ", "", "a(=q8_0", "=q8_0",
          "ffn=no-such-type"};
}

std::string TextProblem(std::string_view input) {
  const auto options = moepack::ParseRecipeText(kWhere, input);
  if (!options) return fuzz::ErrorProblem(options.error(), kWhere);
  const std::string text = moepack::RecipeText(*options);
  const bool one_line = input.find_first_of("#\r\n") == input.npos;
  if (one_line && text != input) return "another text after writing: " + text;
  const auto again = moepack::ParseRecipeText(kWhere, text);
  if (!again) return Cat("refused after writing: ", again.error().message);
  return moepack::RecipeText(*again) == text ? "" : "another text after writing twice";
}

// What distribution.json records about rules, which may have come from a file with lines and
// comments.
std::vector<std::string> Recorded(const std::string& rules) {
  moepack::RecipeOptions options;
  options.recipe = "Q8_0";
  options.tensor_types = {rules};
  const auto read = moepack::ParseRecipeText(kWhere, moepack::RecipeText(options));
  return read ? read->tensor_types : std::vector<std::string>();
}

std::string RulesProblem(const std::string& input) {
  const auto rules = moepack::ParseTensorTypes({input});
  if (!rules) return fuzz::ErrorProblem(rules.error(), "--tensor-type");
  if (rules->empty() || rules->size() > moepack::kMaxTypeRules) return "no rules, or too many";
  const auto again = moepack::ParseTensorTypes(Recorded(input));
  if (!again) return Cat("refused as it was recorded: ", again.error().message);
  if (again->size() != rules->size()) return "another number of rules is recorded";
  for (size_t i = 0; i < rules->size(); ++i) {
    const moepack::TypeOverride& rule = (*rules)[i];
    if (rule.type == nullptr || !rule.regex) return "half a rule";
    if ((*again)[i].expression != rule.expression) return "another rule is recorded";
    // Either is an answer, and neither may take long.
    const auto found = rule.regex->Search("blk.0.ffn_down_exps.weight");
    if (!found && found.error().message.empty()) return "an error without words";
  }
  return "";
}

std::string Check(std::string_view input) {
  const std::string problem = TextProblem(input);
  return problem.empty() ? RulesProblem(std::string(input)) : problem;
}

// A text with options is a recipe, and one with "=" alone holds rules.
bool Accepts(std::string_view input) {
  const bool rules = input.find("--") == input.npos && input.find('=') != input.npos;
  return rules ? moepack::ParseTensorTypes({std::string(input)}).has_value()
               : moepack::ParseRecipeText(kWhere, input).has_value();
}

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 10'000, .accepts = Accepts, .refused = Refused};

}  // namespace recipe_text_target

FUZZ_TARGET(FuzzRecipeText, recipe_text_target::kTarget)
