// Exact numbers: what a host measured, and the points and limits of a plan. No rounding decides anything.

const LONGEST = 1n << 1200n; // below the smallest double; a longer denominator would only cost memory

/** n / d in lowest terms, d > 0. */
export class Fraction {
  /** @param {bigint} n @param {bigint} d */
  constructor(n, d = 1n) {
    if (d === 0n) throw new RangeError("a fraction has a denominator other than 0");
    if (d !== 1n) {
      let [a, b] = [n < 0n ? -n : n, d < 0n ? -d : d];
      while (b) [a, b] = [b, a % b];
      if (d < 0n) a = -a;
      [n, d] = [n / a, d / a];
    }
    this.n = n;
    this.d = d;
  }

  /** "3" or "15/2". @param {string} text */
  static parse(text) {
    const match = /^(\d{1,400})(?:\/([1-9]\d{0,400}))?$/.exec(text);
    if (!match) throw new RangeError("a number such as 3 or 15/2");
    return new Fraction(BigInt(match[1]), BigInt(match[2] ?? 1));
  }

  /** A finite double, exactly. @param {number} number */
  static fromNumber(number) {
    let scale = 1n;
    for (; !Number.isInteger(number); number *= 2) scale *= 2n;
    return new Fraction(BigInt(number), scale);
  }

  /** @param {Fraction} other */
  plus(other) {
    if (this.d === 1n && other.d === 1n) return new Fraction(this.n + other.n);
    return new Fraction(this.n * other.d + other.n * this.d, this.d * other.d);
  }

  /** @param {Fraction} other */
  minus(other) {
    return this.plus(new Fraction(-other.n, other.d));
  }

  /** @param {Fraction} other */
  times(other) {
    return new Fraction(this.n * other.n, this.d * other.d);
  }

  /** @param {Fraction} other */
  over(other) {
    return new Fraction(this.n * other.d, this.d * other.n);
  }

  /** @param {Fraction} other @returns {boolean} */
  below(other) {
    return this.n * other.d < other.n * this.d;
  }

  /** ⌊this⌋, for a fraction that is not negative. */
  floor() {
    return this.n / this.d;
  }

  /** The least double that is not below this. */
  upward() {
    const shift = 1100n; // doubles end at 2⁻¹⁰⁷⁴
    const units = (this.n << shift) / this.d;
    const size = units.toString(2).length;
    const spare = BigInt(Math.max(size - 53, 0));
    const top = units >> spare; // 53 bits: a double holds them exactly
    const exact = top << spare === units && units * this.d === this.n << shift;
    return Number(exact ? top : top + 1n) * 2 ** (Number(spare) - 550) * 2 ** -550;
  }

  toString() {
    return this.d === 1n ? `${this.n}` : `${this.n}/${this.d}`;
  }
}

export const ZERO = new Fraction(0n);

/** @param {Fraction} one @param {Fraction} other */
export const least = (one, other) => (other.below(one) ? other : one);

/** @param {Fraction} one @param {Fraction} other */
export const largest = (one, other) => (one.below(other) ? other : one);

/**
 * The value in [0, most] that stands for what a host calls a number, and what was wrong with it, if anything.
 *
 * Nothing here throws: a report that is missing because of a value would tell of the value.
 *
 * @param {unknown} value @param {Fraction} most @returns {[Fraction, string]}
 */
export function clamped(value, most) {
  if (typeof value === "boolean") value = Number(value);
  if (typeof value === "number" && !Number.isNaN(value)) {
    if (value < 0) return [ZERO, "below-range"];
    if (value === Infinity) return [most, "above-range"];
    value = Fraction.fromNumber(value);
  } else if (typeof value === "bigint") value = new Fraction(value);
  if (!(value instanceof Fraction)) return [ZERO, "not-a-number"];
  if (value.n < 0n) return [ZERO, "below-range"];
  return most.below(value) ? [most, "above-range"] : [value, ""];
}

/**
 * Both together, which stop at `most`.
 *
 * @param {Fraction} total @param {Fraction} amount @param {Fraction} most
 */
export function plusUpTo(total, amount, most) {
  const sum = least(total.plus(amount), most);
  return sum.d > LONGEST ? new Fraction((sum.n * LONGEST) / sum.d, LONGEST) : sum;
}
