# SPDX-License-Identifier: MIT
# rdmad for Nix: `nix-build contrib/nix` in a clone. contrib/recipe-test builds it with something that stands for nixpkgs, of
# Debian's compiler and libraries; not tried with nixpkgs. Version and dependencies are compared with those of Debian's packages
# (t/gate/packages.test).
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "rdmad";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = [ pkgs.autoreconfHook pkgs.pkg-config ];
  buildInputs = with pkgs; [
    check
    isa-l
    jansson
    libconfuse
    libev
    libpcap
    libseccomp
    liburing
    libyaml
    openssl
    rdma-core
  ];
  configureFlags = [ "--disable-playground" ];
  enableParallelBuilding = true;

  # The tests want an hour and the network to themselves: contrib/check.
  doCheck = false;

  postInstall = ''
    install -d "$out/lib/systemd/system" "$out/include/rdmad"
    sed -e '/^# The daemon of the system/d' -e "s|/usr/local/sbin|$out/bin|" \
      contrib/systemd/rdmad.service > "$out/lib/systemd/system/rdmad.service"
    install -m 644 include/rdmad/*.h include/rdmad/*.def "$out/include/rdmad/"
  '';

  meta = {
    description = "RDMA without RDMA hardware: an InfiniBand adapter in user space";
    license = pkgs.lib.licenses.mit;
    platforms = pkgs.lib.platforms.linux;
    mainProgram = "rdmad-run";
  };
}
