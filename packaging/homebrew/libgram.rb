# Homebrew's formula; scripts/release fills in what stands between @ and writes
# build/release/recipes/libgram.rb: brew install --build-from-source ./libgram.rb
class Libgram < Formula
  desc "Gram matrices: distances, kernels, solves and kernel machines"
  homepage "@URL@"
  url "@URL@"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "pkgconf" => :test
  depends_on "openblas"

  def install
    args = %w[-DGRAM_TESTS=OFF -DGRAM_CUDA=OFF -DGRAM_MPI=OFF]
    args << "-DCMAKE_PREFIX_PATH=#{Formula["openblas"].opt_prefix}"
    system "cmake", "-S", ".", "-B", "build", *args, *std_cmake_args
    system "cmake", "--build", "build", "--target", "programs"
    system "cmake", "--install", "build"
  end

  test do
    (testpath/"test.c").write <<~C
      #include <gram/gram.h>

      int main(void)
      {
          float x[] = {0, 0, 3, 4}, distance[4];
          gram_tensor tx = gram_matrix(x, 2, 2, GRAM_F32), out = gram_matrix(distance, 2, 2, GRAM_F32);
          gram_context *g;
          if (gram_context_create(0, &g) || gram_cdist(g, &tx, 0, gram_number(2), 0, &out))
              return 1;
          gram_context_destroy(g);
          return distance[1] != 5;
      }
    C
    flags = shell_output("pkgconf --cflags --libs gram").chomp.split
    system ENV.cc, "test.c", "-o", "test", *flags
    system "./test"
    assert_match version.to_s, shell_output("#{bin}/gram --version")
  end
end
