
:
xPlaceholder*
dtype0*
shape:
3
sizeConst*
dtype0*
valueB:
,
yResizeNearestNeighborxsize*
T0"†