// SPDX-License-Identifier: MIT
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h uses size_t and FILE and declares neither.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "belfry/data/datasets/folders/decode_internal.h"

namespace belfry {
namespace {

// libjpeg reports through these; errors jump back to run(), which has nothing to destroy.
struct Handler {
  jpeg_error_mgr base;  // first: libjpeg gives a pointer to it
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

void on_error(j_common_ptr info) {
  auto* handler = reinterpret_cast<Handler*>(info->err);
  handler->base.format_message(info, handler->message);
  std::longjmp(handler->back, 1);
}

// Warnings mean damage, but for bytes between segments, which cameras leave.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) on_error(info);
}

// Pixels are wanted when the size is known: no memory of C++ is taken below setjmp.
enum class Step : std::uint8_t { header, pixels };

class Jpeg {
 public:
  explicit Jpeg(std::span<const std::uint8_t> file) : file_(file) {
    info_.err = jpeg_std_error(&handler_.base);
    handler_.base.error_exit = on_error;
    handler_.base.emit_message = on_message;
    jpeg_create_decompress(&info_);
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  // False with message() when libjpeg gave up. `inks` holds 4 values a column.
  bool run(Step step, std::int64_t channels, std::uint8_t* out, std::uint8_t* inks) {
    if (setjmp(handler_.back) != 0) return false;
    if (step == Step::header) {
      jpeg_mem_src(&info_, file_.data(), file_.size());
      jpeg_read_header(&info_, TRUE);
      return true;
    }
    const bool printed = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = printed ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info_.dct_method = JDCT_ISLOW;  // the same pixels on every machine
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      std::uint8_t* const line = out + std::size_t{info_.output_scanline} * info_.output_width *
                                           static_cast<std::size_t>(channels);
      JSAMPROW row = printed ? inks : line;
      jpeg_read_scanlines(&info_, &row, 1);
      if (printed) mix(inks, channels, line);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }
  const char* message() const { return handler_.message; }
  std::uint64_t rows() const { return info_.image_height; }
  std::uint64_t columns() const { return info_.image_width; }

 private:
  // Cyan, magenta, yellow and black, each inverted as Adobe's programs write them and Pillow reads.
  void mix(const std::uint8_t* inks, std::int64_t channels, std::uint8_t* out) const {
    for (JDIMENSION x = 0; x < info_.output_width; ++x, inks += 4, out += channels) {
      const auto light = [inks](int c) {
        return static_cast<std::uint8_t>((inks[c] * inks[3] + 127) / 255);
      };
      if (channels == 1)
        *out = grey_of(light(0), light(1), light(2));
      else
        for (int c = 0; c < 3; ++c) out[c] = light(c);
    }
  }

  std::span<const std::uint8_t> file_;
  Handler handler_;
  jpeg_decompress_struct info_{};
};

}  // namespace

DecodedImage decode_jpeg(std::span<const std::uint8_t> file, const std::string& path,
                         std::int64_t channels, bool size_only) {
  Jpeg jpeg(file);
  if (!jpeg.run(Step::header, channels, nullptr, nullptr))
    refuse_image(path, "the JPEG image cannot be decoded", jpeg.message());
  check_image_size(path, jpeg.rows(), jpeg.columns());
  DecodedImage out{static_cast<std::int64_t>(jpeg.rows()),
                   static_cast<std::int64_t>(jpeg.columns()),
                   channels,
                   {}};
  if (size_only) return out;
  out.pixels.resize(static_cast<std::size_t>(out.rows * out.columns * channels));
  std::vector<std::uint8_t> inks(static_cast<std::size_t>(out.columns) * 4);
  if (!jpeg.run(Step::pixels, channels, out.pixels.data(), inks.data()))
    refuse_image(path, "the JPEG image cannot be decoded", jpeg.message());
  return out;
}

}  // namespace belfry
