// SPDX-License-Identifier: MIT
// Rows a second that the loader's thread reads, decodes, shuffles and augments, beside what a step
// of one tower trains of them.
// Before jpeglib.h, which uses both and includes neither.
#include <cstddef>
#include <cstdio>
//
#include <jpeglib.h>

#include <cstdlib>
#include <memory>

#include "belfry/bench/common/options.h"
#include "belfry/bench/common/rates.h"
#include "belfry/bench/common/results.h"
#include "belfry/bench/common/scratch.h"
#include "belfry/core/philox.h"
#include "belfry/data/datasets/cifar/cifar.h"
#include "belfry/data/datasets/folders/folders.h"
#include "belfry/data/datasets/idx/idx.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/session.h"

namespace belfry::bench {
namespace {

constexpr std::int64_t kIdxRows = 20000, kCifarRows = 4000, kJpegs = 200;
constexpr int kSteps = 10;

std::string random_bytes(std::size_t n) {
  const Philox random = philox_key(1, Purpose::test);
  std::string out(n, '\0');
  for (std::size_t i = 0; i < n; i += 16) {
    const auto w = random(static_cast<std::uint32_t>(i), 0, 0, 0);
    for (std::size_t k = i; k < std::min(n, i + 16); ++k)
      out[k] = static_cast<char>(w.v[(k - i) / 4] >> (8 * (k % 4)));
  }
  return out;
}

std::string big_endian(std::int64_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}

std::shared_ptr<const Dataset> idx_rows(const Scratch& folder) {
  std::string labels;
  for (std::int64_t r = 0; r < kIdxRows; ++r) labels += static_cast<char>(r % 10);
  folder.write("images", big_endian(0x803) + big_endian(kIdxRows) + big_endian(28) +
                             big_endian(28) + random_bytes(kIdxRows * 784));
  folder.write("labels", big_endian(0x801) + big_endian(kIdxRows) + labels);
  return idx(folder / "images", folder / "labels");
}

std::shared_ptr<const Dataset> cifar_rows(const Scratch& folder) {
  std::string bytes = random_bytes(kCifarRows * 3073);
  for (std::size_t r = 0; r < kCifarRows; ++r) bytes[r * 3073] = static_cast<char>(r % 10);
  folder.write("batch.bin", bytes);
  return cifar({folder / "batch.bin"}, {.mean = {0.5}, .stddev = {0.25}});
}

// Smooth colours: noise is no picture, and slower to decode.
std::string jpeg(int side, int seed) {
  std::vector<unsigned char> row(static_cast<std::size_t>(side) * 3);
  jpeg_compress_struct file;
  jpeg_error_mgr errors;
  file.err = jpeg_std_error(&errors);
  jpeg_create_compress(&file);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&file, &data, &size);
  file.image_width = file.image_height = static_cast<JDIMENSION>(side);
  file.input_components = 3;
  file.in_color_space = JCS_RGB;
  jpeg_set_defaults(&file);
  jpeg_set_quality(&file, 90, TRUE);
  jpeg_start_compress(&file, TRUE);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side * 3; ++x)
      row[static_cast<std::size_t>(x)] = static_cast<unsigned char>(
          (x * (1 + seed % 3) / 3 + y * (seed % 5) + (x * y) / 64) % 256);
    unsigned char* rows[] = {row.data()};
    jpeg_write_scanlines(&file, rows, 1);
  }
  jpeg_finish_compress(&file);
  std::string out(reinterpret_cast<const char*>(data), size);
  jpeg_destroy_compress(&file);
  std::free(data);  // NOLINT: libjpeg's
  return out;
}

std::shared_ptr<const Dataset> jpeg_rows(const Scratch& folder) {
  for (int i = 0; i < kJpegs; ++i)
    folder.write("jpeg/" + std::to_string(i % 10) + "/" + std::to_string(i) + ".jpg", jpeg(256, i));
  return folders(folder / "jpeg", {.size = {224, 224}});
}

// One kind of rows: an epoch of the loader, and steps of a model on one of its batches.
class Work {
 public:
  Work(Context& context, std::shared_ptr<const Dataset> data, const std::string& model,
       const Options& options, AugmentOptions augment = {})
      : context_(context),
        data_(std::move(data)),
        options_{.batch = options.batch, .augment = augment} {
    options_.prefetch = 0;  // in this thread: it is what the loader's own would take
    load();
    if (model.empty()) return;
    factory_ = builtin().table<ModelEntry>().at(model, "model").make();
    group_ = std::make_unique<TowerGroupBase>(context, momentum({.lr = 0.01}), [this] {
      return factory_->build(data_->fields()[0].shape, data_->classes());
    });
    Loader(context, data_, options_).next(batch_);
    for (int i = 0; i < kSteps; ++i) group_->step(batch_, loss_);
  }

  void round() {
    const Clock::time_point start = Clock::now();
    const double rows = load();
    rounds.add_load(rows, seconds_since(start));
    if (!group_) return;
    rounds.add_step(static_cast<double>(batch_.rows),
                    median_seconds(kSteps, [this] { group_->step(batch_, loss_); }));
  }

  LoaderRounds rounds;

 private:
  double load() {
    Loader loader(context_, data_, options_);
    Batch batch;
    double rows = 0;
    while (loader.next(batch)) rows += static_cast<double>(batch.rows);
    return rows;
  }

  Context& context_;
  std::shared_ptr<const Dataset> data_;
  LoaderOptions options_;
  std::shared_ptr<ModelFactory> factory_;
  std::unique_ptr<TowerGroupBase> group_;
  LossFn loss_ = classifier_loss();
  Batch batch_;
};

bool run(const Options& options) {
  Results results("loader");
  results.setting("batch", std::to_string(options.batch));
  const Scratch folder;
  Context context({.threads_per_tower = 1});
  const auto digits = idx_rows(folder), pictures = cifar_rows(folder);
  struct Named {
    std::string name, text, step;
    std::unique_ptr<Work> work;
  };
  const auto work = [&](std::shared_ptr<const Dataset> data, const std::string& model,
                        AugmentOptions augment = {}) {
    return std::make_unique<Work>(context, std::move(data), model, options, augment);
  };
  std::vector<Named> all;
  all.push_back({"idx_mlp", "idx 28 x 28, shuffled", "mlp", work(digits, "mlp")});
  all.push_back({"idx_lenet", "idx 28 x 28, shuffled", "lenet", work(digits, "lenet")});
  all.push_back({"cifar", "cifar, shuffled", "resnet20", work(pictures, "resnet20")});
  all.push_back({"cifar_augmented", "cifar, shifted and mirrored", "resnet20",
                 work(pictures, "resnet20", {.pad_crop = 4, .flip = true})});
  all.push_back(
      {"jpeg", "JPEG 256 x 256, decoded, resized to 224", "", work(jpeg_rows(folder), "")});
  for (int i = 0; i < options.rounds; ++i)
    for (Named& n : all) n.work->round();
  for (const Named& n : all) {
    const LoaderRounds& r = n.work->rounds;
    results.figure(n.name + "_rows_per_second", n.text, r.loaded, "rows/s");
    if (n.step.empty()) continue;
    results.figure(n.name + "_step_rows_per_second", "  a step of " + n.step, r.trained, "rows/s");
    results.figure(n.name + "_headroom", "  loader / step", r.headroom(), "x");
    results.at_least(n.name + "_headroom", 1);
  }
  results.write(options.json);
  return results.passed();
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  return belfry::bench::bench_main(argc, argv, belfry::bench::run);
}
