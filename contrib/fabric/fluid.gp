# SPDX-License-Identifier: MIT
# The tables that rdmad-sim left in a directory, over the fluid model of the same (see "fluid" beside this file):
#
#	rdmad-sim -o out dcqcn.yaml && ./fluid 0 100 >out/fluid.csv && cd out && gnuplot .../fluid.gp
set datafile separator ","
set terminal svg size 900,700 background "white"
set output "fluid.svg"
set multiplot layout 2,1
set xlabel "ms"
set ylabel "Gbit/s"
plot for [f=0:1] "flows.csv" using ($2 == f ? $1 / 1e3 : NaN):($5 / 1e3) with dots lc f + 1 title sprintf("flow %d, packets", f), \
	for [f=0:1] "fluid.csv" using ($1 / 1e3):(column(f + 3) / 1e3) skip 1 with lines lw 2 lc f + 1 title sprintf("flow %d, fluid", f)
set ylabel "queue, KB"
set yrange [0:250]
plot "ports.csv" using (strcol(2) eq "sw0>host0" ? $1 / 1e3 : NaN):($4 / 1e3) with dots lc 1 title "packets", \
	"fluid.csv" using ($1 / 1e3):($2 / 1e3) skip 1 with lines lw 2 lc 2 title "fluid"
unset multiplot
