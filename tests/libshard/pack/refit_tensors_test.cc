// The tensors that a refit puts into bundles, for every convertible layout of experts: the inverse
// of the conversion that made the store from the source.
#include "libshard/pack/refit_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/encode_rows.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/recipe/quantize.h"
#include "tests/libshard/convert/convertible_layouts.h"
#include "tests/libshard/refit/sample_store.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// Two groups that cover a model, the first with one expert of the second as fill.
Plan TwoGroups(const MoeModel& model, bool overlay) {
  PlanOptions options;
  options.groups = 2;
  auto plan = MakePlan(model, options);
  if (!plan) throw std::runtime_error(plan.error().message);
  if (!overlay) return *std::move(plan);
  OverlayPlan one{"one", "", {}, {}};
  for (const auto& [layer, count] : plan->layers) one.experts_by_layer[layer] = {0};
  plan->overlays.push_back(std::move(one));
  return *std::move(plan);
}

// Layouts whose numbers are not quantized. Their rows say so: every run of this program asks for
// the list, whichever tests it runs, and opening all layouts would take half a second each time.
std::vector<std::string> PlainConvertibleLayouts() {
  const auto is_quantized = [](const fixtures::Row& row) {
    return row.dtype == "I32" || row.dtype == "U8" || row.dtype.starts_with("F8_");
  };
  std::vector<std::string> layouts = ConvertibleLayouts();
  std::erase_if(layouts, [&](const std::string& layout) {
    const fixtures::Rows& rows = fixtures::FindLayout(layout)->rows;
    return std::any_of(rows.begin(), rows.end(), is_quantized);
  });
  return layouts;
}

// The digests of every tensor of every file: "groups/000/experts.safetensors: name".
std::map<std::string, std::string> Digests(const MoeModel& model,
                                           const std::vector<OutputFile>& files,
                                           const RefitTensors* refit) {
  std::vector<SourceFile> sources = model.checkpoint().files();
  if (refit != nullptr) {
    sources.insert(sources.end(), refit->files().begin(), refit->files().end());
  }
  const auto digests = DigestOutputs(sources, files, {});
  if (!digests) throw std::runtime_error(digests.error().message);
  std::map<std::string, std::string> out;
  for (size_t f = 0; f < files.size(); ++f) {
    for (size_t t = 0; t < files[f].tensors.size(); ++t) {
      out[Cat(files[f].path, ": ", files[f].tensors[t].entry.name)] = (*digests)[f].tensors[t];
    }
  }
  return out;
}

class RefittedLayout : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), dir_ / "source"));
    auto model = MoeModel::Open(dir_ / "source");
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
  }

  RefitTensors Refit(const Plan& plan, const StoreOptions& options = {}) {
    fs::remove_all(dir_ / "store");
    WriteStore(dir_ / "store", *model_, plan, options);
    const auto store = RefitStore::Open(dir_ / "store");
    auto refit = RefitTensors::Of(*store, *model_, plan);
    if (!refit) throw std::runtime_error(refit.error().message);
    return *std::move(refit);
  }

  std::map<std::string, std::string> Safetensors(const Plan& plan, const RefitTensors* refit) {
    SliceOptions options;
    options.refit = refit;
    auto files = SliceSafetensors(*model_, plan, options);
    if (!files) throw std::runtime_error(files.error().message);
    return Digests(*model_, *files, refit);
  }

  std::map<std::string, std::string> Gguf(const Plan& plan, const RefitTensors* refit) {
    auto typed = PrepareGguf(*model_, {});
    if (!typed) throw std::runtime_error(typed.error().message);
    SliceOptions options;
    options.refit = refit;
    const GgufSlicing slicing{typed->model, "", typed->recipe.overlay_types};
    auto files = SliceGguf(slicing, PlanFor(typed->model, plan), options);
    if (!files) throw std::runtime_error(files.error().message);
    return Digests(*model_, *files, refit);
  }

  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
};

TEST_P(RefittedLayout, GivesTheSourceBytesIfNothingChanged) {
  for (const bool overlay : {false, true}) {
    const Plan plan = TwoGroups(*model_, overlay);
    const RefitTensors refit = Refit(plan);
    std::map<std::string, std::string> found = Safetensors(plan, &refit);
    size_t rows = 0;
    for (const auto& [name, digest] : Safetensors(plan, nullptr)) {
      EXPECT_EQ(found[name], digest) << name;
      found.erase(name);
    }
    for (const auto& [name, digest] : found) {
      EXPECT_TRUE(name.starts_with("groups/")) << name;
      ++rows;
    }
    EXPECT_GE(rows, 1u) << "groups have router rows of their own";
    EXPECT_EQ(Gguf(plan, &refit), Gguf(plan, nullptr));
  }
}

TEST_P(RefittedLayout, ChangesOnlyGroupsIfEverythingChanged) {
  const Plan plan = TwoGroups(*model_, true);
  StoreOptions options;
  options.change = Perturb;
  const RefitTensors refit = Refit(plan, options);
  for (const bool gguf : {false, true}) {
    const auto before = gguf ? Gguf(plan, nullptr) : Safetensors(plan, nullptr);
    const auto after = gguf ? Gguf(plan, &refit) : Safetensors(plan, &refit);
    size_t changed = 0;
    for (const auto& [name, digest] : before) {
      const bool same = after.at(name) == digest;
      EXPECT_TRUE(same || name.starts_with("groups/")) << name;
      changed += same ? 0 : 1;
    }
    EXPECT_GE(changed, 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RefittedLayout, testing::ValuesIn(PlainConvertibleLayouts()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

class RefitOfQwen : public RefittedLayout {
 protected:
  Error RefitError(const Plan& plan) {
    const auto store = RefitStore::Open(dir_ / "store");
    if (!store) return store.error();
    auto refit = RefitTensors::Of(*store, *model_, plan);
    return refit ? Error{Code::kInvalidArgument, "it fits"} : refit.error();
  }
};

TEST_P(RefitOfQwen, NamesAMismatchOfModelOrPlan) {
  const Plan plan = TwoGroups(*model_, false);
  StoreOptions options;
  options.record = [](RefitRecord& record) { record.model = std::string(16, '0'); };
  WriteStore(dir_ / "store", *model_, plan, options);
  EXPECT_THAT(RefitError(plan).message, HasSubstr("refit.json: model: expected"));
  fs::remove_all(dir_ / "store");
  WriteStore(dir_ / "store", *model_, plan);
  const Error error = RefitError(TwoGroups(*model_, true));
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("refit.json: plan: expected"));
}

TEST_P(RefitOfQwen, NamesALayerThatIsMissing) {
  const Plan plan = TwoGroups(*model_, false);
  {
    auto writer = RefitStoreWriter::Open(dir_ / "store", SampleRecord(*model_, plan));
    ASSERT_TRUE(writer);
  }
  const Error error = RefitError(plan);
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("layer 0, group 0: expected what became of it, found none"));
  EXPECT_THAT(error.hint, HasSubstr("run the same command again"));
}

// A node needs the refit of its own groups, and nobody can write others with it.
TEST_P(RefitOfQwen, APartIsEnoughForTheGroupsThatItHas) {
  const Plan plan = TwoGroups(*model_, false);
  StoreOptions options;
  options.change = Perturb;
  options.part = SamplePart(plan, {1});
  WriteStore(dir_ / "store", *model_, plan, options);
  const auto store = RefitStore::Open(dir_ / "store");
  const auto parts = [](const std::string& part) { return *ParseParts({part}, 2); };
  for (const char* part : {"group:1", "trunk", "trunk,group:1,assets"})
    EXPECT_TRUE(RefitTensors::Of(*store, *model_, plan, parts(part))) << part;
  const auto refused = [&](const PartSelection& selection) {
    auto refit = RefitTensors::Of(*store, *model_, plan, selection);
    return refit ? Error{Code::kIo, "it has them"} : refit.error();
  };
  const std::string directory = (dir_ / "store").string();
  const Error whole = refused({});
  EXPECT_EQ(whole.code, Code::kInvalidArgument);
  EXPECT_EQ(whole.message, directory +
                               ": refit: expected groups 0-1, which this run writes, found "
                               "group 1 of 2");
  EXPECT_EQ(whole.hint,
            "with --only group:1 this store is enough; `moepack join` makes one store of all "
            "parts");
  EXPECT_THAT(refused(parts("trunk,group:0")).message,
              HasSubstr(": refit: expected group 0, which this run writes, found group 1 of 2"));
}

TEST_P(RefitOfQwen, APartThatWasStoppedIsNotEnough) {
  const Plan plan = TwoGroups(*model_, false);
  const RefitPart part = SamplePart(plan, {1});
  ASSERT_TRUE(RefitStoreWriter::Open(dir_ / "store", SampleRecord(*model_, plan), part));
  const auto store = RefitStore::Open(dir_ / "store");
  ASSERT_TRUE(store) << store.error().message;
  const auto refit = RefitTensors::Of(*store, *model_, plan, *ParseParts({"group:1"}, 2));
  ASSERT_FALSE(refit);
  EXPECT_EQ(refit.error().code, Code::kCorrupt);
  EXPECT_THAT(refit.error().message,
              HasSubstr("layer 0, group 1: expected what became of it, found none"));
}

TEST_P(RefitOfQwen, NamesArraysThatTheModelLacks) {
  const Plan plan = TwoGroups(*model_, false);
  StoreOptions options;
  options.change = [](RefittedExperts& experts) {
    experts.selection_bias.assign(experts.expert_ids.size(), 1.f);
  };
  WriteStore(dir_ / "store", *model_, plan, options);
  EXPECT_THAT(RefitError(plan).message,
              HasSubstr("\"selection_bias\": expected none, as the model has none"));
}

TEST_P(RefitOfQwen, NamesExpertsOfAnotherWidth) {
  const Plan plan = TwoGroups(*model_, false);
  StoreOptions options;
  options.change = [](RefittedExperts& experts) {
    const size_t n = experts.expert_ids.size();
    experts.width = 2;
    experts.gate.assign(n * 2 * experts.hidden, 1.f);
    experts.up = experts.down = experts.gate;
  };
  WriteStore(dir_ / "store", *model_, plan, options);
  const auto store = RefitStore::Open(dir_ / "store");
  const auto refit = RefitTensors::Of(*store, *model_, plan);
  ASSERT_TRUE(refit) << refit.error().message;
  SliceOptions slice;
  slice.refit = &*refit;
  const auto files = SliceSafetensors(*model_, plan, slice);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, Code::kMismatch);
  EXPECT_THAT(files.error().message, HasSubstr("layer-000-group-000.safetensors: tensor \"gate\": "
                                               "expected experts that fit \"model.layers.0.mlp."));
}

INSTANTIATE_TEST_SUITE_P(Qwen, RefitOfQwen, testing::Values("qwen3-moe"));

TEST(RefitOfQuantizedExperts, IsRefusedAsSafetensorsAndWrittenAsGguf) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("deepseek-v3", dir / "source"));
  const auto model = MoeModel::Open(dir / "source");
  ASSERT_TRUE(model) << model.error().message;
  const Plan plan = TwoGroups(*model, false);
  WriteStore(dir / "store", *model, plan);
  const auto refit = RefitTensors::Of(*RefitStore::Open(dir / "store"), *model, plan);
  ASSERT_TRUE(refit) << refit.error().message;
  SliceOptions options;
  options.refit = &*refit;
  const auto files = SliceSafetensors(*model, plan, options);
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("expected F32, F16 or BF16 to put a refit in its "
                                               "place, found F8_E4M3"));
  const auto typed = PrepareGguf(*model, {});
  ASSERT_TRUE(typed) << typed.error().message;
  const GgufSlicing slicing{typed->model, "", typed->recipe.overlay_types};
  const auto gguf = SliceGguf(slicing, PlanFor(typed->model, plan), options);
  EXPECT_TRUE(gguf) << gguf.error().message;
}

}  // namespace
}  // namespace moepack
